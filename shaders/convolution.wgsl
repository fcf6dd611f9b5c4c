// convolution: y[t] = sum over taps j of w[j] x[t - TAPS + 1 + j], channel by channel; what is before a row, or with DOCUMENTS before a document, is 0.
// BACK: x is dy, y is dx: y[t] = sum over j of w[j] x[t + TAPS - 1 - j], of those that t is not before of.
// An invocation owns an item of a row. Twins: graph.Convolution.Eval, graph.ConvolutionGrad.Eval.
struct Params {
    count: u32, // items of x
    width: u32, // of a row, in items of T
    t: u32,     // rows a sequence
}
@bind var<uniform> params: Params;
@bind var<storage, read> x: array<{{T}}>;
@bind var<storage, read> w: array<{{T}}>; // [channels, TAPS]
#if DOCUMENTS
@bind var<storage, read> positions: array<i32>;
#endif
@bind var<storage, read_write> y: array<{{T}}>;

// before is how many rows a row sees before itself.
fn before(row: u32) -> u32 {
#if DOCUMENTS
    return u32(positions[row]);
#else
    return row % params.t;
#endif
}

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.count) {
        let row = i / params.width;
        let channel = i % params.width;
{{LOAD_TAPS}}
        var sum = {{T}}(0.0);
#for J in 0..TAPS
        {
            let away = {{LAST}}u - {{J}}u;
#if BACK
            if (row % params.t + away < params.t) {
                if (before(row + away) >= away) {
                    sum += tap_{{J}} * x[i + away * params.width];
                }
            }
#else
            if (before(row) >= away) {
                sum += tap_{{J}} * x[i - away * params.width];
            }
#endif
        }
#end
        y[i] = sum;
    }
}
