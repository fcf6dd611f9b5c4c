struct Params {
    t: u32,      // rows a sequence
    window: u32, // rows of a sequence's cache; PAGED: entries of a row of the table
    heads: u32,  // query heads
    group: u32,  // query heads a key head
    qs: u32,     // stride of a row of q, in the unit of the arrays
    os: u32,
    cs: u32,     // of a row of the cache
    v0: u32,     // where the values start in it
    head: u32,   // stride of a head
    part: u32,   // keys a workgroup
    scale: f32,
#if LIMITED
    local: u32,  // keys that a row sees, at most
    cap: f32,
#endif
}
@bind var<uniform> p: Params;
@bind var<storage, read> positions: array<i32>;
@bind var<storage, read> q: array<{{ELEMENT}}>;
@bind var<storage, read> cache: array<{{ELEMENT}}>;
#if PAGED
@bind var<storage, read> blocks: array<i32>; // the table
@bind var<storage, read> rows: array<i32>;   // of it, of each token; -1: idle
#import "shared/attention_block.wgsl"
#endif
#if PARTS
// Of each row, head and part: the sum of exp(score - m) v; m and the sum of exp(score - m). attention_merge joins them.
@bind var<storage, read_write> sums: array<vec4<f32>>;
@bind var<storage, read_write> stats: array<vec2<f32>>;
#else
@bind var<storage, read_write> o: array<{{ELEMENT}}>;
#endif
