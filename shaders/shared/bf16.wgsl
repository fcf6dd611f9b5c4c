// bfloat16, two to a u32, the element of the lower index in the low half. Rounding goes by integers, so that it is the same
// on every adapter and NaN, infinities and denormals survive. Twins: buffers.EncodeBF16, DecodeBF16.

// bf16_round_bits rounds the bits of four f32 to the nearest bfloat16, ties to even; NaN stays NaN, made quiet.
fn bf16_round_bits(u: vec4<u32>) -> vec4<u32> {
    let half = vec4<u32>(16u);
    let rounded = (u + vec4<u32>(0x7fffu) + ((u >> half) & vec4<u32>(1u))) >> half;
    let nan = (u & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
    return select(rounded, (u >> half) | vec4<u32>(0x40u), nan);
}

// bf16_stochastic_bits rounds up where adding 16 random bits (noise) to the dropped ones carries.
fn bf16_stochastic_bits(u: vec4<u32>, noise: vec4<u32>) -> vec4<u32> {
    let half = vec4<u32>(16u);
    let nan = (u & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
    return select((u + noise) >> half, (u >> half) | vec4<u32>(0x40u), nan);
}

// bf16_join packs four bfloat16 of 16 bits each, bf16_split is its inverse, in the bits of f32.
fn bf16_join(b: vec4<u32>) -> vec2<u32> { return b.xz | (b.yw << vec2<u32>(16u)); }

fn bf16_split(w: vec2<u32>) -> vec4<u32> {
    return vec4<u32>(w.x << 16u, w.x & 0xffff0000u, w.y << 16u, w.y & 0xffff0000u);
}

// bf16_round is the bfloat16 nearest to x, in the low 16 bits.
fn bf16_round(x: f32) -> u32 { return bf16_round_bits(vec4<u32>(bitcast<u32>(x))).x; }

fn bf16_pack2(x: vec2<f32>) -> u32 {
    let b = bf16_round_bits(bitcast<vec2<u32>>(x).xyxy);
    return b.x | (b.y << 16u);
}

fn bf16_unpack2(w: u32) -> vec2<f32> { return bitcast<vec2<f32>>(vec2<u32>(w << 16u, w & 0xffff0000u)); }

fn bf16_pack4(x: vec4<f32>) -> vec2<u32> { return bf16_join(bf16_round_bits(bitcast<vec4<u32>>(x))); }

fn bf16_unpack4(w: vec2<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(bf16_split(w)); }
