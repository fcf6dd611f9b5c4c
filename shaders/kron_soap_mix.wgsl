// kron_soap_mix: x <- keep x + rest y, or SQUARES: rest y², four elements an invocation; nothing where the flag says so. Twin:
// (*soapBlock).follow.
struct Params {
    vecs: u32,
    keep: f32,
    rest: f32,
}

@bind var<uniform> p: Params;
@bind var<storage, read> flag: vec4<u32>; // word 1 not zero: keep everything
@bind var<storage, read> y: array<vec4<f32>>;
@bind var<storage, read_write> x: array<vec4<f32>>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < p.vecs && flag.y == 0u) {
#if SQUARES
        x[i] = p.keep * x[i] + p.rest * (y[i] * y[i]);
#else
        x[i] = p.keep * x[i] + p.rest * y[i];
#endif
    }
}
