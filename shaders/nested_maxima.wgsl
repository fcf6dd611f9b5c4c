// nf4_maxima: dst[i] = levels[code i of src] * top + offset, those of the group of 256 that i is in, four an invocation. Twin: nf4.NestedMaximum.
struct Params {
    quads: u32,
    first: u32, // group
}

@bind var<uniform> params: Params;
@bind var<storage, read> src: array<u32>; // four codes each, the first in the low byte
@bind var<storage, read> groups: array<vec2<f32>>; // the largest magnitude of each, and the offset
@bind var<storage, read> levels: array<f32, 256>; // Twin: nf4.Map
@bind var<storage, read_write> dst: array<vec4<f32>>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.quads) {
        let w = src[i];
        let g = groups[params.first + i / 64u];
        let level = vec4<f32>(levels[w & 255u], levels[(w >> 8u) & 255u], levels[(w >> 16u) & 255u], levels[w >> 24u]);
        // The product is rounded, and then the sum: max, which changes nothing, keeps compilers from joining them.
        dst[i] = max(level * g.x, vec4<f32>(-3.4e38)) + g.y;
    }
}
