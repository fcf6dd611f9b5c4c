#import "shared/threefry.wgsl"

fn dropout_keeps(index: u32, key: vec2<u32>, threshold: u32) -> bool {
    return (threefry_bits(key, vec2<u32>(0u, index)) >> 9u) >= threshold;
}

// The factor is one that compilers do not know: they would move a constant from a product to one of its factors, which rounds otherwise, but
// only where nothing else reads the product.
//
// dropout1 and dropout4 are x scale where the uniform number of its index, in units of 2^-23, is at least threshold, 0 elsewhere.
fn dropout4(x: vec4<f32>, index: vec4<u32>, key0: u32, key1: u32, salt: u32, threshold: u32, scale: f32) -> vec4<f32> {
    let key = threefry_fold(vec2<u32>(key0, key1), salt);
    let keeps = vec4<bool>(dropout_keeps(index.x, key, threshold), dropout_keeps(index.y, key, threshold),
        dropout_keeps(index.z, key, threshold), dropout_keeps(index.w, key, threshold));
    return select(vec4<f32>(0.0), x * select(vec4<f32>(1.0), vec4<f32>(scale), keeps), keeps);
}

fn dropout1(x: f32, index: u32, key0: u32, key1: u32, salt: u32, threshold: u32, scale: f32) -> f32 {
    let key = threefry_fold(vec2<u32>(key0, key1), salt);
    let keeps = dropout_keeps(index, key, threshold);
    return select(0.0, x * select(1.0, scale, keeps), keeps);
}
