// convolution_taps: what a run of rows adds to the gradient of the taps: partial[run, c, j] = sum over its t of dy[t] x[t - TAPS + 1 + j].
// An invocation owns an item of channels of a run. Twin: graph.ConvolutionTapsGrad.Eval.
struct Params {
    width: u32, // of a row, in items of T
    t: u32,     // rows a sequence
    run: u32,   // rows
    runs: u32,  // of a sequence
    count: u32, // items of all runs
}
@bind var<uniform> params: Params;
@bind var<storage, read> x: array<{{T}}>;
@bind var<storage, read> dy: array<{{T}}>;
#if DOCUMENTS
@bind var<storage, read> positions: array<i32>;
#endif
@bind var<storage, read_write> partial: array<f32>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.count) {
        let channel = i % params.width;
        let run = i / params.width;
        let sequence = run / params.runs * params.t;
        let first = run % params.runs * params.run;
#for J in 0..TAPS
        var sum_{{J}} = {{T}}(0.0);
#end
        for (var at = first; at < min(first + params.run, params.t); at++) {
            let row = sequence + at;
#if DOCUMENTS
            let before = u32(positions[row]);
#else
            let before = at;
#endif
            let here = row * params.width + channel;
            let d = dy[here];
#for J in 0..TAPS
            if (before >= {{LAST}}u - {{J}}u) {
                sum_{{J}} += d * x[here - ({{LAST}}u - {{J}}u) * params.width];
            }
#end
        }
#for J in 0..TAPS
#if SCALAR
        partial[i * {{TAPS}}u + {{J}}u] = sum_{{J}};
#else
        partial[(4u * i) * {{TAPS}}u + {{J}}u] = sum_{{J}}.x;
        partial[(4u * i + 1u) * {{TAPS}}u + {{J}}u] = sum_{{J}}.y;
        partial[(4u * i + 2u) * {{TAPS}}u + {{J}}u] = sum_{{J}}.z;
        partial[(4u * i + 3u) * {{TAPS}}u + {{J}}u] = sum_{{J}}.w;
#endif
#end
    }
}
