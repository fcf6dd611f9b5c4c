// The mean of the row statistics of each matrix, by which they are divided. Twin: (*optim.factoredTwin).update.
#import "shared/row.wgsl"

struct Params {
    matrices: u32,
}

// Statistics of one matrix. Filled in by optim/adafactor_tiles.go.
struct Matrix {
    first: u32,
    stride: u32,
    count: u32,
    over_n: f32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> matrices: array<Matrix>;
@bind var<storage, read> values: array<f32>;
@bind var<storage, read_write> means: array<f32>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let i = row_index(workgroup, workgroups, lane);
    let begin = row_lane(lane);
    if (i < params.matrices) {
        let m = matrices[i];
        var total = 0.0;
        for (var k = begin; k < m.count; k += row_lanes) { total += values[m.first + k * m.stride]; }
        let sum = row_sum(total, begin);
        if (begin == 0u) { means[i] = sum * m.over_n; }
    }
}
