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

// chosen is how often an expert was chosen in all layers.
fn chosen(e: u32) -> f32 {
    var n = 0.0;
    for (var l = 0u; l < p.layers; l++) {
        n += counts[l * p.experts + e];
    }
    return n;
}

// total is the sum of what all invocations have.
fn total(x: f32, lane: u32) -> f32 {
    workgroupBarrier();
    sums[lane] = x;
    for (var left = 32u; left > 0u; left /= 2u) {
        workgroupBarrier();
        if (lane < left) {
            sums[lane] += sums[lane + left];
        }
    }
    workgroupBarrier();
    return sums[0];
}

#import "shared/main.wgsl" LANES=64
{
    var all = 0.0;
#if !BACK
    var sum = 0.0;
#endif
    for (var e = lane; e < p.experts; e += 64u) {
        let count = chosen(e);
        all += count;
#if !BACK
        var likely = 0.0;
        for (var l = 0u; l < p.layers; l++) {
            likely += probs[l * p.experts + e];
        }
        sum += count * likely;
#endif
    }
    let rows = total(all, lane) / f32(p.chosen);
    var scale = 0.0; // without rows
    if (rows > 0.0) {
        scale = f32(p.experts) / rows / rows;
    }
#if BACK
    for (var e = lane; e < p.experts; e += 64u) {
        let count = chosen(e);
        for (var l = 0u; l < p.layers; l++) {
            dprobs[l * p.experts + e] = dy[0] * scale * count;
        }
    }
#else
    let products = total(sum, lane);
    if (lane == 0u) {
        y[0] = products * scale;
    }
#endif
}
