// cast_halves: dst[i] = src[i] over one array, by eights of elements, rounded to f16, to nearest even: of f32, of bf16 (BF16), or of codes (CODED), of which
// src has words of eight. Twin: array.EncodeF16.
#import "shared/half.wgsl"
#import "shared/halves.wgsl"

struct Params {
    quads: u32, // of dst: eights of elements
}

@bind var<uniform> params: Params;
#if CODED
#import "shared/codes.wgsl"
@bind var<storage, read> src: array<u32>;
@bind var<storage, read> maxima: array<f32>; // of 64 elements each
#else
#if BF16
#import "shared/bf16.wgsl"
@bind var<storage, read> src: array<vec4<u32>>;
#else
@bind var<storage, read> src: array<vec4<f32>>;
#endif
#endif
@bind var<storage, read_write> dst: array<vec4<u32>>;

#import "shared/main.wgsl" LANES=256
{
    let first = grid_index(workgroup, workgroups, lane, 1024u);
    let end = min(params.quads, first + 1024u);
    for (var i = first; i < end; i = i + 256u) {
#if CODED
        let maximum = maxima[i / 8u];
        dst[i] = vec4<u32>(half_pack4(maximum * {{CODES}}_levels(src[i])), half_pack4(maximum * {{CODES}}_levels(src[i] >> 16u)));
#else
#if BF16
        dst[i] = vec4<u32>(half_pack4(bf16_unpack4(src[i].xy)), half_pack4(bf16_unpack4(src[i].zw)));
#else
        dst[i] = vec4<u32>(half_pack4(src[2u * i]), half_pack4(src[2u * i + 1u]));
#endif
#endif
    }
}
