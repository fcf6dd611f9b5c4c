// attention_append: cache[b, positions[b, t]] = (k[b, t], v[b, t]), the keys of all heads and then their values. PAGED, it goes to the place of a
// position of the token's row. An invocation copies one element. Twin: graph.CachedAttention.Eval.
struct Params {
    count: u32,  // elements of k and v of all rows
    t: u32,      // rows a sequence
    window: u32, // rows of a sequence's cache; PAGED: entries of a row of the table
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
#if PAGED
@bind var<storage, read> blocks: array<i32>; // the table
@bind var<storage, read> rows: array<i32>;   // of it, of each token; -1: idle
#import "shared/attention_block.wgsl"
#endif
@bind var<storage, read_write> cache: array<{{ELEMENT}}>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < p.count) {
        let row = i / (2u * p.width);
        let at = i % (2u * p.width);
#if PAGED
        if (rows[row] < 0) {
            return;
        }
        let to = place(u32(rows[row]) * p.window, u32(positions[row])) * 2u * p.width + at;
#else
        let to = (row / p.t * p.window + u32(positions[row])) * 2u * p.width + at;
#endif
        if (at < p.width) {
            cache[to] = {{K}}[row * p.ks + p.k0 + at];
        } else {
            cache[to] = {{V}}[row * p.vs + p.v0 + at - p.width];
        }
    }
}
