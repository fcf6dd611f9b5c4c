// kron_soap_scale: m <- m / (sqrt(nu / correction) + eps), four elements an invocation; MOMENTUM: after nu <- keep nu + rest m². Of zero it is
// zero, as padding is. Twin: (*soapBlock).turn.
struct Params {
    vecs: u32,
    eps: f32,
    keep: f32,
    rest: f32,
}

@bind var<uniform> p: Params;
@bind var<uniform> update: vec4<f32>; // 1 - b2^n
#if MOMENTUM
@bind var<storage, read> flag: vec4<u32>; // word 1 not zero: nu keeps every bit
@bind var<storage, read_write> nu: array<vec4<f32>>;
#else
@bind var<storage, read> nu: array<vec4<f32>>;
#endif
@bind var<storage, read_write> m: array<vec4<f32>>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < p.vecs) {
        let x = m[i];
        var v = nu[i];
#if MOMENTUM
        v = p.keep * v + p.rest * (x * x);
        if (flag.y == 0u) { nu[i] = v; }
#endif
        m[i] = select(x / (sqrt(v / update.x) + p.eps), vec4<f32>(0.0), x == vec4<f32>(0.0));
    }
}
