struct Params {
    t: u32,      // rows a sequence
    window: u32, // rows of a sequence's cache
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
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> positions: array<i32>;
@group(0) @binding(2) var<storage, read> q: array<{{ELEMENT}}>;
@group(0) @binding(3) var<storage, read> cache: array<{{ELEMENT}}>;
#if PARTS
// Of each row, head and part: the sum of exp(score - m) v; m and the sum of exp(score - m). attention_merge joins them.
@group(0) @binding(4) var<storage, read_write> sums: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> stats: array<vec2<f32>>;
#else
@group(0) @binding(4) var<storage, read_write> o: array<{{ELEMENT}}>;
#endif
