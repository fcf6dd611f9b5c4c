// cast: dst[i] = src[i] over one slab, by quads of four elements, four quads an invocation, and by integers alone: f32 to
// bf16 to nearest even, bf16 to f32 without loss; or f16 to f32 (HALF). Twins: array.EncodeBF16, DecodeBF16, DecodeF16.
#if HALF
#import "shared/half.wgsl"
#import "shared/halves.wgsl"
#else
#import "shared/bf16.wgsl"
#endif

struct Params {
    quads: u32,
}

@bind var<uniform> params: Params;
#if WIDEN
@bind var<storage, read> src: array<vec2<u32>>;
@bind var<storage, read_write> dst: array<vec4<u32>>;
#else
@bind var<storage, read> src: array<vec4<u32>>;
@bind var<storage, read_write> dst: array<vec2<u32>>;
#endif

#import "shared/main.wgsl" LANES=256
{
    let first = grid_index(workgroup, workgroups, lane, 1024u);
    let end = min(params.quads, first + 1024u);
    for (var i = first; i < end; i = i + 256u) {
#if HALF
        dst[i] = bitcast<vec4<u32>>(half_unpack4(src[i]));
#else
#if WIDEN
        dst[i] = bf16_split(src[i]);
#else
        dst[i] = bf16_join(bf16_round_bits(src[i]));
#endif
#endif
    }
}
