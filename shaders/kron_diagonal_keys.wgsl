// The keys of the dense sides of blocks with one diagonal side: of the norm bound, and with SPLIT of that of the Procrustes step.
// Twin: (*twinBlock).keys, (*factor).update.
#import "shared/kron_side.wgsl"
#import "shared/kron_draw.wgsl"

struct Params {
    count: u32,
}

@bind var<uniform> params: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> sides: array<Side>;
@bind var<storage, read_write> bounds: array<vec2<u32>>;
#if SPLIT
@bind var<storage, read_write> turns: array<vec2<u32>>;
#endif

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.count) {
        let key = threefry_fold(block_key(sides[i].kind, sides[i].stack, sides[i].leaf), 0u);
#if SPLIT
        bounds[i] = threefry_fold(key, 0u);
        turns[i] = threefry_fold(key, 1u);
#else
        bounds[i] = key;
#endif
    }
}
