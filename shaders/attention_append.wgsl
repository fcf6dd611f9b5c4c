// attention_append: cache[b, positions[b, t]] = (k[b, t], v[b, t]), the keys of all heads and then their values. An invocation copies one
// element. Twin: graph.CachedAttention.Eval.
struct Params {
    count: u32,  // elements of k and v of all rows
    t: u32,      // rows a sequence
    window: u32, // rows of a sequence's cache
    width: u32,  // of k, and of v
    ks: u32,     // stride of a row of k
    vs: u32,
    k0: u32,     // where k starts in a row
    v0: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> positions: array<i32>;
@bind var<storage, read> {{K}}: array<{{ELEMENT}}>;
#if !PACKED
@bind var<storage, read> v: array<{{ELEMENT}}>;
#endif
@bind var<storage, read_write> cache: array<{{ELEMENT}}>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < p.count) {
        let row = i / (2u * p.width);
        let at = i % (2u * p.width);
        let to = (row / p.t * p.window + u32(positions[row])) * 2u * p.width + at;
        if (at < p.width) {
            cache[to] = {{K}}[row * p.ks + p.k0 + at];
        } else {
            cache[to] = {{V}}[row * p.vs + p.v0 + at - p.width];
        }
    }
}
