// y = exp(x - max x) / sum exp(x - max x) over each row. Twin: graph.Softmax.Eval.

struct Params {
    rows: u32,
    width: u32, // of a row, in items of T
}

@bind var<uniform> params: Params;
@bind var<storage, read> x: array<{{T}}>;
@bind var<storage, read_write> y: array<{{T}}>;

#import "shared/row.wgsl"
#import "shared/row_max.wgsl"

#import "shared/main.wgsl" LANES=64
{
    let row = row_index(workgroup, workgroups, lane);
    let begin = row_lane(lane);
    if (row < params.rows) {
        let first = row * params.width;
        var top = {{T}}(-3.4028234e38);
        for (var k = begin; k < params.width; k += row_lanes) { top = max(top, x[first + k]); }
        let peak = row_max(top, begin);
        var total = {{T}}(0.0);
        for (var k = begin; k < params.width; k += row_lanes) {
            let e = exp(x[first + k] - peak);
            total += e;
            y[first + k] = e;
        }
        let scale = 1.0 / row_sum(total, begin);
        for (var k = begin; k < params.width; k += row_lanes) { y[first + k] = y[first + k] * scale; }
    }
}
