// route_grad: the gradient of logits from that of the weights w of the chosen: w (dw - sum(w dw)), and where the weights are the softmax over ALL, of the
// others -p sum(w dw), p the softmax. An invocation takes a logit. Twin: graph.RouteGrad.Eval.
struct Params {
    count: u32, // logits
    experts: u32,
}
@bind var<uniform> p: Params;
#if ALL
@bind var<storage, read> logits: array<f32>;
#endif
@bind var<storage, read> weights: array<f32>;
@bind var<storage, read> ids: array<i32>;
@bind var<storage, read> dweights: array<f32>;
@bind var<storage, read_write> dlogits: array<f32>;

const K = {{K}}u;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.count) {
        return;
    }
    let row = i / p.experts;
    let expert = i32(i % p.experts);
    var inner = 0.0;
    for (var j = 0u; j < K; j++) {
        inner += weights[row * K + j] * dweights[row * K + j];
    }
#if ALL
    var d = -inner * weights[row * K] * exp(logits[i] - logits[row * p.experts + u32(ids[row * K])]);
#else
    var d = 0.0;
#endif
    for (var j = 0u; j < K; j++) {
        if (ids[row * K + j] == expert) {
            d = weights[row * K + j] * (dweights[row * K + j] - inner);
        }
    }
    dlogits[i] = d;
}
