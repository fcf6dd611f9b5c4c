// dx = rstd (g - mean g - xhat mean(g xhat)), g = dy gamma, xhat = (x - mean) rstd; RMS: dx = rstd (g - xhat mean(g xhat)),
// xhat = x rstd. Twins: graph.LayerNormGrad.Eval, graph.RMSNormGrad.Eval.
// ROTATE: dy is what the rotation of heads makes of what is bound as dy (shared/rotate.wgsl). Twin: graph.Rope.Eval.
// GAIN: partials[part] = the sum of dy xhat over the part's rows, one after the other; a part that began before the bound rows goes on
// from its partial. A lane keeps the sums of its TURNS items of a row in registers. Twin: graph.NormGammaGrad.Eval.

struct Params {
    rows: u32,
    width: u32,      // of a row, in items of T
    reciprocal: f32, // of the width in elements
    chunk: u32,      // rows of a part
    before: u32,     // rows that precede those that are bound
#if ROTATE
    half: u32,       // of a head, in items
    per_token: u32,  // rows
    positions: u32,
#endif
}

@bind var<uniform> params: Params;
@bind var<storage, read> x: array<{{T}}>;
@bind var<storage, read> gamma: array<{{T}}>;
@bind var<storage, read> stats: array<f32>;
@bind var<storage, read> dy: array<{{T}}>;
#if ROTATE
#import "shared/rotate.wgsl"
#endif
#if GAIN
@bind var<storage, read_write> partials: array<{{T}}>;
#endif
#if EPILOGUE
#import "shared/epilogue.wgsl"
#else
@bind var<storage, read_write> dx: array<{{T}}>;
#endif

#import "shared/row.wgsl"

// Item k of a row of dy.
fn given(row: u32, k: u32) -> {{T}} {
    let i = row * params.width + k;
#if ROTATE
    let upper = k / params.half % 2u == 1u;
    let low = i - params.half * u32(upper);
    let angle = rotation_of(row / params.per_token) + k % params.half;
    let a = dy[low];
    let b = dy[low + params.half];
    return select(rotated_low(a, b, angle), rotated_high(a, b, angle), upper);
#else
    return dy[i];
#endif
}

// Item k of a row of dx, from that of dy and of x less the mean.
fn store(first: u32, k: u32, d: {{T}}, centred: {{T}}, rstd: f32, level: f32, along: f32) {
#if EPILOGUE
    finish(first + k, rstd * (d * gamma[k] - level - centred * along));
#else
    dx[first + k] = rstd * (d * gamma[k] - level - centred * along);
#endif
}

#import "shared/main.wgsl" LANES=64
{
    let begin = row_lane(lane);
#if GAIN
    let part = params.before / params.chunk + row_index(workgroup, workgroups, lane);
    let start = max(params.before, part * params.chunk) - params.before;
    let end = min(params.before + params.rows, (part + 1u) * params.chunk) - params.before;
    if (start >= end) { return; }
    let sums = part * params.width;
#for J in 0..TURNS
    var gain_{{J}} = {{T}}(0.0);
    if (part * params.chunk < params.before && begin + {{J}}u * row_lanes < params.width) { gain_{{J}} = partials[sums + begin + {{J}}u * row_lanes]; }
#end
    for (var row = start; row < end; row++) {
#else
    let row = row_index(workgroup, workgroups, lane);
    if (row < params.rows) {
#endif
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
            let g = given(row, k) * gamma[k];
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
#if GAIN
#for J in 0..TURNS
        if (begin + {{J}}u * row_lanes < params.width) {
            let k = begin + {{J}}u * row_lanes;
            let d = given(row, k);
            let centred = x[first + k] - mean;
            gain_{{J}} += d * (centred * rstd);
            store(first, k, d, centred, rstd, level, along);
        }
#end
#else
        for (var k = begin; k < params.width; k += row_lanes) {
            store(first, k, given(row, k), x[first + k] - mean, rstd, level, along);
        }
#endif
    }
#if GAIN
#for J in 0..TURNS
    if (begin + {{J}}u * row_lanes < params.width) { partials[sums + begin + {{J}}u * row_lanes] = gain_{{J}}; }
#end
#endif
}
