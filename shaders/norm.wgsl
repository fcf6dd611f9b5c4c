// y = (x - mean) rstd gamma + beta, rstd = 1/sqrt(variance + eps); RMS: y = x rstd gamma, rstd = 1/sqrt(mean x^2 + eps).
// ROTATE: the heads of a row are then turned by the angle of its token's position (shared/rotate.wgsl).
// Twins: graph.LayerNorm.Eval, graph.RMSNorm.Eval, graph.Rope.Eval.

struct Params {
    rows: u32,
    width: u32,      // of a row, in items of T
    reciprocal: f32, // of the width in elements
    eps: f32,
#if ROTATE
    half: u32,      // of a head, in items
    per_token: u32, // rows
    positions: u32,
#endif
}

@bind var<uniform> params: Params;
@bind var<storage, read> x: array<{{T}}>;
@bind var<storage, read> gamma: array<{{T}}>;
#if !RMS
@bind var<storage, read> beta: array<{{T}}>;
#endif
#if ROTATE
#import "shared/rotate.wgsl"
#endif
@bind var<storage, read_write> y: array<{{T}}>;
@bind var<storage, read_write> stats: array<f32>;

#import "shared/row.wgsl"

#import "shared/main.wgsl" LANES=64
{
    let row = row_index(workgroup, workgroups, lane);
    let begin = row_lane(lane);
    if (row < params.rows) {
        let first = row * params.width;
        var total = {{T}}(0.0);
#if RMS
        let mean = 0.0;
#else
        for (var k = begin; k < params.width; k += row_lanes) { total += x[first + k]; }
        let mean = row_sum(total, begin) * params.reciprocal;
        total = {{T}}(0.0);
#endif
        for (var k = begin; k < params.width; k += row_lanes) {
            let d = x[first + k] - mean;
            total += d * d;
        }
        let rstd = 1.0 / sqrt(row_sum(total, begin) * params.reciprocal + params.eps);
#if ROTATE
        let rotation = rotation_of(row / params.per_token);
        for (var pair = begin; 2u * pair < params.width; pair += row_lanes) {
            let low = pair + pair / params.half * params.half;
            let high = low + params.half;
            let a = x[first + low] * rstd * gamma[low];
            let b = x[first + high] * rstd * gamma[high];
            let angle = rotation + pair % params.half;
            y[first + low] = rotated_low(a, b, angle);
            y[first + high] = rotated_high(a, b, angle);
        }
#else
        for (var k = begin; k < params.width; k += row_lanes) {
#if RMS
            y[first + k] = x[first + k] * rstd * gamma[k];
#else
            y[first + k] = (x[first + k] - mean) * rstd * gamma[k] + beta[k];
#endif
        }
#endif
        if (begin == 0u) {
#if RMS
            stats[row] = rstd;
#else
            stats[2u * row] = mean;
            stats[2u * row + 1u] = rstd;
#endif
        }
    }
}
