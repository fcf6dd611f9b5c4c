// dx = rstd (g - mean g - xhat mean(g xhat)), g = dy gamma, xhat = (x - mean) rstd; RMS: dx = rstd (g - xhat mean(g xhat)),
// xhat = x rstd. Twins: graph.LayerNormGrad.Eval, graph.RMSNormGrad.Eval.

struct Params {
    rows: u32,
    width: u32,      // of a row, in items of T
    reciprocal: f32, // of the width in elements
}

@bind var<uniform> params: Params;
@bind var<storage, read> x: array<{{T}}>;
@bind var<storage, read> gamma: array<{{T}}>;
@bind var<storage, read> stats: array<f32>;
@bind var<storage, read> dy: array<{{T}}>;
#if EPILOGUE
#import "shared/epilogue.wgsl"
#else
@bind var<storage, read_write> dx: array<{{T}}>;
#endif

#import "shared/row.wgsl"

#import "shared/main.wgsl" LANES=64
{
    let row = row_index(workgroup, workgroups, lane);
    let begin = row_lane(lane);
    if (row < params.rows) {
        let first = row * params.width;
#if RMS
        let mean = 0.0;
        let rstd = stats[row];
#else
        let mean = stats[2u * row];
        let rstd = stats[2u * row + 1u];
        var total = {{T}}(0.0);
#endif
        var moment = {{T}}(0.0);
        for (var k = begin; k < params.width; k += row_lanes) {
            let g = dy[first + k] * gamma[k];
            moment += g * (x[first + k] - mean);
#if !RMS
            total += g;
#endif
        }
        let along = row_sum(moment, begin) * params.reciprocal * rstd * rstd;
#if RMS
        let level = 0.0;
#else
        let level = row_sum(total, begin) * params.reciprocal;
#endif
        for (var k = begin; k < params.width; k += row_lanes) {
#if EPILOGUE
            finish(first + k, rstd * (dy[first + k] * gamma[k] - level - (x[first + k] - mean) * along));
#else
            dx[first + k] = rstd * (dy[first + k] * gamma[k] - level - (x[first + k] - mean) * along);
#endif
        }
    }
}
