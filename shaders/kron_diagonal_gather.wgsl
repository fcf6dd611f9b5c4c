// Strips of matrices with one diagonal side, out of a slab: x = G + N; zeros where a strip is padding. What a patch does not have of a
// four stays: another patch has it. ALIGNED: the fours of the patches are fours of the slab too. Twin: (*twinBlock).read, refresh.
#import "shared/threefry.wgsl"
#import "shared/bf16.wgsl"
#import "shared/kron.wgsl"
#import "shared/kron_strip.wgsl"

struct Params {
    shares: u32,
}

@bind var<uniform> params: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> shares: array<Share>;
@bind var<storage, read> patches: array<Patch>;
#if ALIGNED
@bind var<storage, read> updates: array<vec4<f32>>;
#else
@bind var<storage, read> updates: array<f32>;
#endif
@bind var<storage, read> amplitude: array<f32>; // of the noise of each block
@bind var<storage, read_write> x: array<vec4<f32>>;

#if NOISE
#import "shared/kron_draw.wgsl"
#endif

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    if (index >= params.shares) { return; }
    let share = shares[index];
    let p = patches[share.patch_];
#if NOISE
    let scale = amplitude[p.block];
    let key = threefry_fold(block_key(p.kind, p.stack, p.leaf), 1u);
#endif
    let step = place_step(p);
    var here = place_first(p, share.first + lane);
    for (var i = share.first + lane; i < place_end(p, share.first); i += 64u) {
        let row = here.row;
        let four = here.four;
        var v = vec4<f32>(0.0);
#if ALIGNED
        if (row < p.longs && 4u * four < p.end) {
            v = updates[(p.place + row * p.long) / 4u + four];
#if NOISE
            let at = p.draw + row * p.draw_long + 4u * four * p.draw_dense;
            v += scale * vec4<f32>(draw(key, at), draw(key, at + p.draw_dense), draw(key, at + 2u * p.draw_dense),
                draw(key, at + 3u * p.draw_dense));
#endif
        }
#else
#for C in 0..4
        {
            let c = 4u * four + {{C}}u;
            if (row < p.longs && c >= p.begin && c < p.end) {
                v[{{C}}] = updates[p.place + row * p.long + c * p.dense];
#if NOISE
                v[{{C}}] += scale * draw(key, p.draw + row * p.draw_long + c * p.draw_dense);
#endif
            }
        }
#end
#endif
        let at = p.at + row * p.width + four;
#if !ALIGNED
        if (4u * four < p.begin || 4u * four + 4u > p.fill) {
            let c = vec4<u32>(4u * four) + vec4<u32>(0u, 1u, 2u, 3u);
            v = select(x[at], v, (c >= vec4<u32>(p.begin)) & (c < vec4<u32>(p.fill)));
        }
#endif
        x[at] = v;
        here = place_next(here, p, step);
    }
}
