// load_balance: E sum over experts of F P, of how often experts were chosen (counts) and the sums of their probabilities (probs) in each layer: F and P are their
// sums over layers divided by the rows of all layers. BACK: the gradient of probs, from that of the loss. One workgroup. Twins: graph.LoadBalance.Eval,
// graph.LoadBalanceGrad.Eval.
struct Params {
    layers: u32,
    experts: u32,
    chosen: u32, // experts of a row
    unused: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> counts: array<f32>;
#if BACK
@bind var<storage, read> dy: array<f32>;
@bind var<storage, read_write> dprobs: array<f32>;
#else
@bind var<storage, read> probs: array<f32>;
@bind var<storage, read_write> y: array<f32>;
#endif

var<workgroup> sums: array<f32, 64>;

#import "shared/main.wgsl" LANES=64
{
    var all = 0.0;
#if !BACK
    var sum = 0.0;
#endif
    for (var e = lane; e < p.experts; e += 64u) {
        var chosen = 0.0;
        for (var l = 0u; l < p.layers; l++) {
            chosen += counts[l * p.experts + e];
        }
        all += chosen;
#if !BACK
        var likely = 0.0;
        for (var l = 0u; l < p.layers; l++) {
            likely += probs[l * p.experts + e];
        }
        sum += chosen * likely;
#endif
    }
    sums[lane] = all;
    for (var left = 32u; left > 0u; left /= 2u) {
        workgroupBarrier();
        if (lane < left) {
            sums[lane] += sums[lane + left];
        }
    }
    workgroupBarrier();
    let rows = sums[0] / f32(p.chosen);
    var scale = 0.0; // without rows
    if (rows > 0.0) {
        scale = f32(p.experts) / rows / rows;
    }
#if BACK
    for (var e = lane; e < p.experts; e += 64u) {
        var chosen = 0.0;
        for (var l = 0u; l < p.layers; l++) {
            chosen += counts[l * p.experts + e];
        }
        for (var l = 0u; l < p.layers; l++) {
            dprobs[l * p.experts + e] = dy[0] * scale * chosen;
        }
    }
#else
    workgroupBarrier();
    sums[lane] = sum;
    for (var left = 32u; left > 0u; left /= 2u) {
        workgroupBarrier();
        if (lane < left) {
            sums[lane] += sums[lane + left];
        }
    }
    if (lane == 0u) {
        y[0] = sums[0] * scale;
    }
#endif
}
