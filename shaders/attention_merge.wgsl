// attention_merge: o = sum(exp(m_i - m) sums_i) / sum(exp(m_i - m) l_i) over the parts i of the keys, m the largest m_i: what
// attention_cached has left of each row, head and part. An invocation makes four elements. Twin: graph.CachedAttention.Eval.
struct Params {
    count: u32, // rows * heads * quads
    quads: u32, // of a head
    parts: u32,
    dim: u32,   // of a head
}
@bind var<uniform> p: Params;
@bind var<storage, read> sums: array<vec4<f32>>;
@bind var<storage, read> stats: array<vec2<f32>>;
#if SINKS
@bind var<storage, read> sinks: array<f32>; // one more score of each head, which no value has
#endif
@bind var<storage, read_write> o: array<f32>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < p.count) {
        let head = i / p.quads;
        let d = i % p.quads;
        var m = stats[head * p.parts].x;
        for (var s = 1u; s < p.parts; s++) {
            m = max(m, stats[head * p.parts + s].x);
        }
        var l = 0.0;
#if SINKS
        let sink = sinks[head % {{HEADS}}u];
        m = max(m, sink);
        l = exp(sink - m);
#endif
        var sum = vec4<f32>();
        for (var s = 0u; s < p.parts; s++) {
            let at = head * p.parts + s;
            let share = exp(stats[at].x - m);
            l += share * stats[at].y;
            sum += share * sums[at * p.quads + d];
        }
        let r = sum / max(l, 1.0e-30); // of an idle token 0
        let to = head * p.dim + d * 4u;
        o[to] = r.x;
        if (d * 4u + 1u < p.dim) {
            o[to + 1u] = r.y;
        }
        if (d * 4u + 2u < p.dim) {
            o[to + 2u] = r.z;
        }
        if (d * 4u + 3u < p.dim) {
            o[to + 3u] = r.w;
        }
    }
}
