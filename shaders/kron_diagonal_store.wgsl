// Dense factors of blocks with one diagonal side, rounded to their storage: q = next, where the block does not keep every bit. Twin:
// Config.round.
#import "shared/threefry.wgsl"
#import "shared/kron.wgsl"
#import "shared/kron_side.wgsl"

struct Params {
    count: u32,
    width: u32, // fours of a row
}

@bind var<uniform> params: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> sides: array<Side>;
@bind var<storage, read> keep: array<u32>;
@bind var<storage, read> next: array<vec4<f32>>;
#import "shared/kron_kept.wgsl" NAME=q

#if DITHER
#import "shared/kron_draw.wgsl"
#endif

const largest = vec4<f32>(1e9); // so that what never has a gradient stays finite, and its products with Gram matrices too

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    let block = i / (4u * params.width * params.width);
    if (block < params.count && keep[block] == 0u) {
#if DITHER
        let side = sides[block];
        let key = kron_rounding_key(block_key(side.kind, side.stack, side.leaf), side.side);
        let row = i / params.width % (4u * params.width);
        let four = i % params.width;
        let x = clamp(next[i], -largest, largest);
        var bits = kron_round_bits(x, key, row, four);
#if SYMMETRIC
        // What is below the diagonal is rounded as its mirror image above, so that what is stored is symmetric.
        if (row > 4u * four) {
#for C in 0..4
            if (row > 4u * four + {{C}}u) { bits[{{C}}] = kron_round_bits(vec4<f32>(x[{{C}}]), key, 4u * four + {{C}}u, row / 4u)[row % 4u]; }
#end
        }
#endif
        q[i] = bf16_join(bits);
#else
        q_keep(i, clamp(next[i], -largest, largest));
#endif
    }
}
