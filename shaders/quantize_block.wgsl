// Every element becomes what a block of a GGUF file holds for it: a whole number times the block's scale. A block is `size` neighbours of a line, fewer at its
// end; lines are rows, or columns where they lie DOWN a matrix. An invocation has a block to itself.
//
//     d = top / OVER,  y = f16(d) code(x (1/d)),  or of HALVES y = f16(x)
//
// top is the largest magnitude, with its sign where it is SIGNED. The file is written by a processor, so that each operation has to be rounded as there: quotients
// are made of integers, for those of devices may be some ulps off, and no product is added to anything, for devices may round both at once.
// Twin: graph.Quantize.Eval.

struct Params {
    groups: u32,
    across: u32, // groups a line, lines where they lie down
    length: u32, // elements a line
    size: u32,   // elements a group
}

@bind var<uniform> params: Params;
@bind var<storage, read> x: array<f32>;
@bind var<storage, read_write> y: array<f32>;

#import "shared/half.wgsl"

#if !HALVES
const tiny = 0x1p-100f;

// float is q 2^(e - 150), q from 2^23 to 2^24.
fn float(q: u32, e: u32) -> f32 {
    return bitcast<f32>((e << 23u) + (q - 0x800000u));
}

fn mantissa(x: f32) -> u32 { return (bitcast<u32>(x) & 0x7fffffu) | 0x800000u; }

fn exponent(x: f32) -> u32 { return (bitcast<u32>(x) >> 23u) & 255u; }

// reciprocal is that of |d|: 2^47 / m, in steps of eight bits.
fn reciprocal(d: f32) -> f32 {
    let m = mantissa(d);
    var q = 0u;
    var rest = 0x800000u;
    for (var i = 0u; i < 3u; i++) {
        q = (q << 8u) + (rest << 8u) / m;
        rest = (rest << 8u) % m;
    }
    return float(q + select(0u, 1u, 2u * rest > m), 253u - exponent(d));
}

#if SIGNED
const least = array<f32, 15>({{LEAST}}); // the least quotients of codes from 1 on

fn scale_of(top: f32) -> f32 { return top * (1.0 / {{OVER}}); } // a power of two

fn code(v: f32) -> f32 {
    var c = 0.0;
#for I in 0..15
    if (v >= least[{{I}}]) { c = {{I}}.0 + 1.0; }
#end
    return c + {{OVER}};
}
#else
// scale_of is top / OVER: 24 bits, and as many more as give 24 bits of a quotient, over a number of seven.
fn scale_of(top: f32) -> f32 {
    let m = mantissa(top);
    let shift = select(7u, 6u, m >= {{OVER}}u << 17u);
    let q = (m << shift) / {{OVER}}u;
    let rest = (m << shift) % {{OVER}}u;
    return float(q + select(0u, 1u, 2u * rest > {{OVER}}u), exponent(top) - shift);
}

// code is v to the nearest whole number, of two to the one farther from 0.
fn code(v: f32) -> f32 {
    let a = abs(v);
    let whole = floor(a);
    let c = select(whole, whole + 1.0, a >= whole + 0.5);
    return select(c, -c, v < 0.0);
}
#endif
#endif

#import "shared/main.wgsl" LANES=64
{
    let group = grid_index(workgroup, workgroups, lane, 64u);
    if (group < params.groups) {
#if DOWN
        let column = group / params.across * params.size;
        let first = column * params.across + group % params.across;
        let step = params.across;
#else
        let column = group % params.across * params.size;
        let first = group / params.across * params.length + column;
        let step = 1u;
#endif
        let count = min(params.size, params.length - column);
#if HALVES
        for (var i = 0u; i < count; i++) { y[first + i * step] = half1(x[first + i * step]); }
#else
        var top = 0.0;
        for (var i = 0u; i < count; i++) {
            let v = x[first + i * step];
            if (abs(v) > abs(top)) { top = v; }
        }
#if !SIGNED
        top = abs(top);
#endif
        var scale = 0.0;
        var per = 0.0; // 1/d
        if (abs(top) >= tiny) {
            let d = scale_of(top);
            scale = half1(d);
            per = reciprocal(d);
            if (d < 0.0) { per = -per; }
        }
        for (var i = 0u; i < count; i++) { y[first + i * step] = scale * code(x[first + i * step] * per); }
#endif
    }
}
