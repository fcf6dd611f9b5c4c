struct Params {
    t: u32,           // positions
    heads: u32,       // query heads
    group: u32,       // query heads a key head
    count: u32,       // batch * heads, of the heads that invocations are counted by
    qs: u32, ks: u32, vs: u32, os: u32, // strides of a position, in the unit of the arrays
    k0: u32, v0: u32, // where k and v start in a position
    head: u32,        // stride of a head
    scale: f32,
#if LIMITED
    window: u32,      // keys that a position sees, at most
    cap: f32,
#endif
}
@bind var<uniform> p: Params;
#if F16 // what products read is rounded to f16: q, k, v, dout, weights and the gradients of scores
#import "shared/half.wgsl"
#endif
@bind var<storage, read> {{Q}}: array<{{ELEMENT}}>;
#if !PACKED
@bind var<storage, read> k: array<{{ELEMENT}}>;
@bind var<storage, read> v: array<{{ELEMENT}}>;
#endif
