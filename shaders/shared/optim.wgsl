// What the optimizers' kernels share.

// optim_nearest rounds to bf16 and back.
fn optim_nearest(x: vec4<f32>) -> vec4<f32> { return bf16_unpack4(bf16_pack4(x)); }

// optim_dither rounds four elements of a leaf to bf16 at random: path stands for the leaf, index counts its fours.
// Twin: dithered in optim/dither.go.
fn optim_dither(x: vec4<f32>, path: u32, update: u32, slot: u32, index: u32) -> vec2<u32> {
    let bits = threefry(vec2<u32>(path, update), vec2<u32>(slot, index));
    let noise = vec4<u32>(bits.x & 0xffffu, bits.x >> 16u, bits.y & 0xffffu, bits.y >> 16u);
    return bf16_join(bf16_stochastic_bits(bitcast<vec4<u32>>(x), noise));
}

// optim_nonfinite tells by the bits, as arithmetic may assume that there is nothing of the kind.
fn optim_nonfinite(x: vec4<f32>) -> u32 {
    let exponent = bitcast<vec4<u32>>(x) & vec4<u32>(0x7f800000u);
    return select(0u, 1u, any(exponent == vec4<u32>(0x7f800000u)));
}
