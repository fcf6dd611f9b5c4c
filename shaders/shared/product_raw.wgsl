// Quads of A and B as they lie in memory, and what they stand for: a load that nothing follows is waited for only where its quad is stored.
fn a_raw(i: u32) -> vec4<u32> { return bitcast<vec4<u32>>(a[i]); }
fn a_of(raw: vec4<u32>) -> vec4<f32> { return {{LOAD}}(bitcast<vec4<f32>>(raw)); }
#if B_WHOLE
fn b_raw(i: u32) -> vec4<u32> { return bitcast<vec4<u32>>(b[i]); }
fn b_of(raw: vec4<u32>) -> vec4<f32> { return {{LOAD}}(bitcast<vec4<f32>>(raw)); }
#endif
#if B_BF16
fn b_raw(i: u32) -> vec4<u32> { return vec4<u32>(b[i], 0u, 0u); }
fn b_of(raw: vec4<u32>) -> vec4<f32> { return {{LOAD}}(bf16_unpack4(raw.xy)); }
#endif
#if B_CODES
fn b_raw(i: u32) -> vec4<u32> { return vec4<u32>(b[i / 2u], bitcast<u32>(b_maxima[i / 16u]), 16u * (i % 2u), 0u); }
fn b_of(raw: vec4<u32>) -> vec4<f32> {
    let c = (vec4<u32>(raw.x >> raw.z) >> vec4<u32>(4u, 0u, 12u, 8u)) & vec4<u32>(15u);
    return {{LOAD}}(bitcast<f32>(raw.y) * vec4<f32>(b_levels[c.x], b_levels[c.y], b_levels[c.z], b_levels[c.w]));
}
#endif
