// {{CODES}}_widen: dst[i] = what code i of src stands for in its block, eight an invocation. Twin: {{CODES}}.Number.
#import "shared/codes.wgsl"

struct Params {
    words: u32, // of eight codes
    quads: u32, // of dst
}

@bind var<uniform> params: Params;
@bind var<storage, read> src: array<u32>;
@bind var<storage, read> maxima: array<f32>; // of 64 elements each
@bind var<storage, read_write> dst: array<vec4<f32>>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.words) {
        let w = src[i];
        let maximum = maxima[i / 8u];
        dst[2u * i] = maximum * {{CODES}}_levels(w);
        if (2u * i + 1u < params.quads) {
            dst[2u * i + 1u] = maximum * {{CODES}}_levels(w >> 16u);
        }
    }
}
