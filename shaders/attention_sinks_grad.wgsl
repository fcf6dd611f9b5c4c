// attention_sinks_grad: what each head of each token adds to the gradient of its sink, but for the sign: exp(sink - lse) do.o. A head of a token an invocation.
// Twin: graph.SinkGrad.Eval.
struct Params {
    count: u32, // heads of tokens
    head: u32,  // elements of a head
    heads: u32,
    t: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> sinks: array<f32>;
@bind var<storage, read> o: array<{{ELEMENT}}>;
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read_write> dsinks: array<f32>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.count) {
        return;
    }
    var sum = {{ELEMENT}}();
    for (var d = i * p.head; d < (i + 1u) * p.head; d++) {
        sum += o[d] * dout[d];
    }
    let h = i % p.heads;
    let row = i / p.heads;
    let weight = exp(sinks[h] - lse[(row / p.t * p.heads + h) * p.t + row % p.t]);
#if QUADS
    dsinks[i] = weight * ((sum.x + sum.y) + (sum.z + sum.w));
#else
    dsinks[i] = weight * sum;
#endif
}
