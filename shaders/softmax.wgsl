// y = exp(x - max x) / sum exp(x - max x) over each row. Twin: graph.Softmax.Eval.

struct Params {
    rows: u32,
    width: u32, // of a row, in items of T
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<{{T}}>;
@group(0) @binding(2) var<storage, read_write> y: array<{{T}}>;

#import "shared/row.wgsl"
#import "shared/row_max.wgsl"

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let row = row_index(workgroup, workgroups, local);
    let lane = row_lane(local);
    if (row < params.rows) {
        let first = row * params.width;
        var top = {{T}}(-3.4028234e38);
        for (var k = lane; k < params.width; k += row_lanes) { top = max(top, x[first + k]); }
        let peak = row_max(top, lane);
        var total = {{T}}(0.0);
        for (var k = lane; k < params.width; k += row_lanes) {
            let e = exp(x[first + k] - peak);
            total += e;
            y[first + k] = e;
        }
        let scale = 1.0 / row_sum(total, lane);
        for (var k = lane; k < params.width; k += row_lanes) { y[first + k] = y[first + k] * scale; }
    }
}
