// dx = rstd (g - mean g - xhat mean(g xhat)), g = dy gamma, xhat = (x - mean) rstd; RMS: dx = rstd (g - xhat mean(g xhat)),
// xhat = x rstd. Twins: graph.LayerNormGrad.Eval, graph.RMSNormGrad.Eval.
// ROTATE: dy is what the rotation of heads makes of what is bound as dy (shared/rotate.wgsl). Twin: graph.Rope.Eval.
// GAIN: partials[part] = the sum of dy xhat over the part's rows, one after the other; a part that began before the bound rows goes on
// from its partial. A lane keeps the sums of its TURNS items of a row in registers. Twin: graph.NormGammaGrad.Eval.
// SHIFT: before each such partial, or behind it, is one of dy, of the gradient of the shift. Twin: graph.Reduce.Eval.
// GROUP: a workgroup of LANES has four rows side by side, 64 lanes each, so that four rows share the barriers of one sum; all its lanes add up the gain.

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

// Both sums of a row, in one reduction.
#if GROUP
const side_by_side = 4u;
var<workgroup> pairs: array<{{SUMS}}, {{LANES}}>;

fn row_sums(x: {{SUMS}}, lane: u32) -> {{SUMS}} {
    workgroupBarrier();
    pairs[lane] = x;
    workgroupBarrier();
    for (var step = row_lanes / 2u; step > 0u; step >>= 1u) {
        if (lane % row_lanes < step) { pairs[lane] += pairs[lane + step]; }
        workgroupBarrier();
    }
    return pairs[lane / row_lanes * row_lanes];
}
#else
fn row_sums(x: {{SUMS}}, lane: u32) -> {{SUMS}} { return x; }
#endif

fn mean_of(row: u32) -> f32 {
#if RMS
    return 0.0;
#else
    return stats[2u * row];
#endif
}

fn rstd_of(row: u32) -> f32 {
#if RMS
    return stats[row];
#else
    return stats[2u * row + 1u];
#endif
}

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

#import "shared/main.wgsl" LANES={{LANES}}
{
#if GAIN
    let part = params.before / params.chunk + row_index(workgroup, workgroups, lane);
    let start = max(params.before, part * params.chunk) - params.before;
    let end = min(params.before + params.rows, (part + 1u) * params.chunk) - params.before;
    if (start >= end) { return; }
#if SHIFT
    let sums = (2u * part + {{GAIN_AT}}u) * params.width;
    let shifts = (2u * part + 1u - {{GAIN_AT}}u) * params.width;
#else
    let sums = part * params.width;
#endif
#for J in 0..TURNS
    var gain_{{J}} = {{T}}(0.0);
    if (part * params.chunk < params.before && lane + {{J}}u * {{LANES}}u < params.width) { gain_{{J}} = partials[sums + lane + {{J}}u * {{LANES}}u]; }
#if SHIFT
    var shift_{{J}} = {{T}}(0.0);
    if (part * params.chunk < params.before && lane + {{J}}u * {{LANES}}u < params.width) { shift_{{J}} = partials[shifts + lane + {{J}}u * {{LANES}}u]; }
#endif
#end
    for (var row = start; row < end; row++) {
        let mean = mean_of(row);
        let rstd = rstd_of(row);
#for J in 0..TURNS
        if (lane + {{J}}u * {{LANES}}u < params.width) {
            let k = lane + {{J}}u * {{LANES}}u;
            let d = given(row, k);
            gain_{{J}} += d * ((x[row * params.width + k] - mean) * rstd);
#if SHIFT
            shift_{{J}} += d;
#endif
        }
#end
    }
#for J in 0..TURNS
    if (lane + {{J}}u * {{LANES}}u < params.width) { partials[sums + lane + {{J}}u * {{LANES}}u] = gain_{{J}}; }
#if SHIFT
    if (lane + {{J}}u * {{LANES}}u < params.width) { partials[shifts + lane + {{J}}u * {{LANES}}u] = shift_{{J}}; }
#endif
#end
#else
#if GROUP
    let start = side_by_side * row_index(workgroup, workgroups, lane);
    let end = params.rows;
#endif
#endif
#if GROUP
    let begin = lane % row_lanes;
#if GAIN
    for (var at = start; at < end; at += side_by_side) {
#else
    if (start < end) {
        let at = start;
#endif
        // Lanes beyond the last row take part in its barriers.
        let row = min(at + lane / row_lanes, end - 1u);
        let stop = select(0u, params.width, at + lane / row_lanes < end);
#else
    let begin = 0u;
    let stop = params.width;
    let row = row_index(workgroup, workgroups, lane);
    if (row < params.rows) {
#endif
        let first = row * params.width;
        let mean = mean_of(row);
        let rstd = rstd_of(row);
        var moment = {{T}}(0.0);
#if !RMS
        var total = {{T}}(0.0);
#endif
        for (var k = begin; k < stop; k += row_lanes) {
            let g = given(row, k) * gamma[k];
            moment += g * (x[first + k] - mean);
#if !RMS
            total += g;
#endif
        }
#if RMS
        let along = row_sums(row_fold(moment), lane) * params.reciprocal * rstd * rstd;
        let level = 0.0;
#else
        let both = row_sums(vec2<f32>(row_fold(moment), row_fold(total)), lane);
        let along = both.x * params.reciprocal * rstd * rstd;
        let level = both.y * params.reciprocal;
#endif
        for (var k = begin; k < stop; k += row_lanes) {
            store(first, k, given(row, k), x[first + k] - mean, rstd, level, along);
        }
    }
}
