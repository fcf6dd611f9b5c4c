// attention_sinks: what attention gives with one more score a head, the sink, which no value has: o exp(lse - with), with = log(exp(lse) + exp(sink)). An ELEMENT
// an invocation. Twin: graph.Attention.Eval.
struct Params {
    count: u32, // elements of o
    head: u32,  // of a head
    heads: u32,
    t: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> o: array<{{ELEMENT}}>;
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> sinks: array<f32>;
@bind var<storage, read_write> sunk: array<{{ELEMENT}}>;
@bind var<storage, read_write> lse_with: array<f32>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.count) {
        return;
    }
    let h = i / p.head % p.heads;
    let row = i / p.head / p.heads;
    let at = (row / p.t * p.heads + h) * p.t + row % p.t;
    let most = max(lse[at], sinks[h]);
    let with_sink = most + log(exp(lse[at] - most) + exp(sinks[h] - most));
    sunk[i] = o[i] * exp(lse[at] - with_sink);
    if (i % p.head == 0u) {
        lse_with[at] = with_sink;
    }
}
