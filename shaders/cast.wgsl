// cast: dst[i] = src[i] over one slab, by quads of four elements, four quads an invocation, and by integers alone: f32 to
// bf16 to nearest even or stochastically, bf16 to f32 without loss. Twins: buffers.EncodeBF16, stochasticBF16, DecodeBF16.
#import "shared/grid.wgsl"
#import "shared/bf16.wgsl"
#if STOCHASTIC
#import "shared/threefry.wgsl"
#endif

struct Params {
    quads: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
#if WIDEN
@group(0) @binding(1) var<storage, read> src: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> dst: array<vec4<u32>>;
#else
@group(0) @binding(1) var<storage, read> src: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> dst: array<vec2<u32>>;
#endif
#if STOCHASTIC
// Of each block of 128 elements: a number made of the leaf's path, and the index in the leaf of the block's first quad.
@group(0) @binding(3) var<storage, read> counters: array<vec2<u32>>;
@group(0) @binding(4) var<uniform> key: vec4<u32>; // in xy
#endif

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let first = grid_index(workgroup, workgroups, local, 1024u);
    let end = min(params.quads, first + 1024u);
    for (var i = first; i < end; i = i + 256u) {
#if WIDEN
        dst[i] = bf16_split(src[i]);
#else
#if STOCHASTIC
        let counter = counters[i >> 5u];
        let noise = threefry(key.xy, vec2<u32>(counter.x, counter.y + (i & 31u)));
        dst[i] = bf16_join(bf16_stochastic_bits(src[i], bf16_split(noise) >> vec4<u32>(16u)));
#else
        dst[i] = bf16_join(bf16_round_bits(src[i]));
#endif
#endif
    }
}
