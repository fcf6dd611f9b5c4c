// dx = y (dy - sum y dy) over each row. Twin: graph.SoftmaxGrad.Eval.

struct Params {
    rows: u32,
    width: u32, // of a row, in items of T
}

@bind var<uniform> params: Params;
@bind var<storage, read> y: array<{{T}}>;
@bind var<storage, read> dy: array<{{T}}>;
@bind var<storage, read_write> dx: array<{{T}}>;

#import "shared/row.wgsl"

#import "shared/main.wgsl" LANES=64
{
    let row = row_index(workgroup, workgroups, lane);
    let begin = row_lane(lane);
    if (row < params.rows) {
        let first = row * params.width;
        var total = {{T}}(0.0);
        for (var k = begin; k < params.width; k += row_lanes) { total += y[first + k] * dy[first + k]; }
        let level = row_sum(total, begin);
        for (var k = begin; k < params.width; k += row_lanes) { dx[first + k] = y[first + k] * (dy[first + k] - level); }
    }
}
