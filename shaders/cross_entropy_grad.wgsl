// cross_entropy_grad: dlogits = dloss (exp(logits - lse) - [column = label]), 0 in rows of label -100; IN_PLACE over the
// logits, padding set to 0. dloss is one number, or with EACH one a row. A quad of columns an invocation. Twin:
// graph.CrossEntropyGrad.Eval. With OPTIONS dlogits = dloss ((1 + 2k lse) exp(logits - lse) - (1-e) [column = label] - e / all columns), see
// graph.HeadLossGrad.Eval.
struct Params {
    rows: u32,
    columns: u32,
    stride: u32,  // of a row, in the unit of logits
    column0: u32, // the first, of the label's
    row0: u32,    // of the chunk, in labels, lse and the dloss of EACH
#if OPTIONS
    cap: f32,
    kept: f32,  // 1 - e
    share: f32, // e / all columns
    steep: f32, // 2 k
    pad1: u32, pad2: u32, pad3: u32,
#else
#if CAPPED
    cap: f32, pad1: u32, pad2: u32,
#else
    pad0: u32, pad1: u32, pad2: u32,
#endif
#endif
}
@bind var<uniform> p: Params;
@bind var<storage, read> labels: array<i32>;
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dloss: array<f32>;
#if IN_PLACE
@bind var<storage, read_write> logits: array<{{ELEMENT}}>;
#else
@bind var<storage, read> logits: array<{{ELEMENT}}>;
@bind var<storage, read_write> dlogits: array<{{ELEMENT}}>;
#endif

#if CAPPED // logits are cap tanh(logits/cap)
#if SCALAR
#import "shared/functions.wgsl" T=f32
#else
#import "shared/functions.wgsl" T=vec4<f32>
#endif
#endif
#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
#if SCALAR
    let quads = (p.columns + 3u) / 4u;
#else
    let quads = p.stride;
#endif
    if (i >= p.rows * quads) {
        return;
    }
    let row = i / quads;
    let column = i % quads * 4u;
    let label = labels[p.row0 + row];
    let total = lse[p.row0 + row];
#if EACH
    var scale = dloss[p.row0 + row];
#else
    var scale = dloss[0];
#endif
    if (label == -100) {
        scale = 0.0;
    }
    let hit = u32(label) - p.column0 - column; // the label's place in the quad, above 3 when it is elsewhere
#if SCALAR
    let at = row * p.stride + column;
#for E in 0..4
    if (column + {{E}}u < p.columns) {
#if OPTIONS
#if CAPPED
        let bounded = f_tanh(logits[at + {{E}}u] / p.cap);
        let logit = p.cap * bounded;
        let slope = 1.0 - bounded * bounded;
#else
        let logit = logits[at + {{E}}u];
        let slope = 1.0;
#endif
        {{OUT}}[at + {{E}}u] = scale * ((1.0 + p.steep * total) * exp(logit - total) - select(0.0, p.kept, hit == {{E}}u) - p.share) * slope;
#else
#if CAPPED
        let bounded = f_tanh(logits[at + {{E}}u] / p.cap);
        {{OUT}}[at + {{E}}u] = scale * (exp(p.cap * bounded - total) - select(0.0, 1.0, hit == {{E}}u)) * (1.0 - bounded * bounded);
#else
        {{OUT}}[at + {{E}}u] = scale * (exp(logits[at + {{E}}u] - total) - select(0.0, 1.0, hit == {{E}}u));
#endif
#endif
    }
#end
#else
    let at = row * p.stride + i % quads;
    let lanes = vec4<u32>(0u, 1u, 2u, 3u);
    let one = select(vec4<f32>(0.0), vec4<f32>(1.0), lanes == vec4<u32>(hit));
#if OPTIONS
#if CAPPED
    let bounded = f_tanh(logits[at] / p.cap);
    let logit = p.cap * bounded;
    let slope = 1.0 - bounded * bounded;
#else
    let logit = logits[at];
    let slope = 1.0;
#endif
    let d = scale * ((1.0 + p.steep * total) * exp(logit - total) - p.kept * one - p.share) * slope;
#else
#if CAPPED
    let bounded = f_tanh(logits[at] / p.cap);
    let d = scale * (exp(p.cap * bounded - total) - one) * (1.0 - bounded * bounded);
#else
    let d = scale * (exp(logits[at] - total) - one);
#endif
#endif
    {{OUT}}[at] = select(vec4<f32>(0.0), d, vec4<u32>(column) + lanes < vec4<u32>(p.columns));
#endif
}
