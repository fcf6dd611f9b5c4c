// Every element becomes the nearest number that a format of few bits has for its group: `size` neighbours of a row, fewer at its end.
// An invocation has a group to itself. AFFINE, NF4, or else a small floating point format, with a scale of NVFP4 or of the microscaling formats.
// Twin: graph.Quantize.Eval.

struct Params {
    groups: u32,
    across: u32, // groups a row
    width: u32,  // elements a row
    size: u32,   // elements a group
}

@bind var<uniform> params: Params;
@bind var<storage, read> x: array<f32>;
#if NVFP4
@bind var<storage, read> whole: array<f32>; // [1], the largest magnitude of all groups
#endif
@bind var<storage, read_write> y: array<f32>;

const tiny = 0x1p-100f;

#if AFFINE
fn quantize(first: u32, end: u32) {
    var lo = x[first];
    var hi = lo;
    for (var i = first + 1u; i < end; i++) {
        lo = min(lo, x[i]);
        hi = max(hi, x[i]);
    }
    var s = 0.0;
    var per = 0.0; // 1/s
    if (hi - lo >= tiny) {
        s = (hi - lo) / {{STEPS}};
        per = {{STEPS}} / (hi - lo);
    }
    for (var i = first; i < end; i++) { y[i] = lo + s * round((x[i] - lo) * per); }
#else
fn largest_magnitude(first: u32, end: u32) -> f32 {
    var top = 0.0;
    for (var i = first; i < end; i++) { top = max(top, abs(x[i])); }
    return select(0.0, top, top >= tiny);
}
#if CODES
const levels = array<f32, 16>({{LEVELS}});
const middles = array<f32, 15>({{MIDDLES}});

fn quantize(first: u32, end: u32) {
    let top = largest_magnitude(first, end);
    for (var i = first; i < end; i++) {
        let v = x[i];
        var level = levels[0];
#for I in 0..15
        if (v > top * middles[{{I}}]) { level = levels[{{I}} + 1]; }
#end
        y[i] = top * level;
    }
#else
// near is the number nearest to v of a format with `mantissa` bits of mantissa, whose smallest normal numbers have the biased exponent `least`.
// Products with powers of two are exact, and round is to even.
fn near(v: f32, mantissa: u32, least: u32, largest: f32) -> f32 {
    let ulp = max((bitcast<u32>(v) >> 23u) & 255u, least) - mantissa; // its biased exponent
    let a = min(round(abs(v) * bitcast<f32>((254u - ulp) << 23u)) * bitcast<f32>(ulp << 23u), largest);
    return select(a, -a, v < 0.0);
}

fn quantize(first: u32, end: u32) {
    let top = largest_magnitude(first, end);
    var s = 0.0;
    var per = 0.0; // 1/s
    if (top > 0.0) {
#if NVFP4
        s = whole[0] * (1.0 / 2688.0) * near(448.0 * (top / whole[0]), 3u, 121u, 448.0);
        if (s > 0.0) { per = 1.0 / s; }
#else
        let e = (bitcast<u32>(top) >> 23u) - {{TOP}}u;
        s = bitcast<f32>(e << 23u);
        per = bitcast<f32>((254u - e) << 23u);
#endif
    }
    for (var i = first; i < end; i++) { y[i] = s * near(x[i] * per, {{MANTISSA}}u, {{LEAST}}u, {{LARGEST}}); }
#endif
#endif
}

#import "shared/main.wgsl" LANES=64
{
    let group = grid_index(workgroup, workgroups, lane, 64u);
    if (group < params.groups) {
        let column = group % params.across * params.size;
        let first = group / params.across * params.width + column;
        quantize(first, first + min(params.size, params.width - column));
    }
}
