// Random numbers of the blocks outside the dense stack, for kernels with a uniform `update`. Twin: (*twinBlock).keys, Config.normal.
#import "shared/threefry.wgsl"
#import "shared/bf16.wgsl"
#import "shared/kron.wgsl"
#import "shared/normal.wgsl"

// block_key is that of a block in this update; kind is the place of its base key among those of the uniform.
fn block_key(kind: u32, stack: u32, leaf: u32) -> vec2<u32> {
    var key = update.vectors;
    switch kind {
        case 1u: { key = update.diagonal_both; }
        case 2u: { key = update.diagonal_left; }
        case 3u: { key = update.diagonal_right; }
        default: {}
    }
#if INDEPENDENT
    key = threefry_fold(key, leaf);
#endif
    return kron_block_key(key, stack);
}

fn draw(key: vec2<u32>, index: u32) -> f32 {
    let bits = threefry_bits(key, vec2<u32>(0u, index));
#if BF16
    return normal_bf16(bits);
#else
    return normal_f32(bits);
#endif
}
