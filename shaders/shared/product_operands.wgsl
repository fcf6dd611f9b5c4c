// b_at is a quad of B: of f32, bf16 or nf4, or (B_HALVES) eight elements in f16. F16: operands are rounded to f16.
#if F16
#import "shared/half.wgsl"
#endif
#if B_WHOLE
@bind var<storage, read> b: array<vec4<f32>>;
fn b_at(i: u32) -> vec4<f32> { return {{LOAD}}(b[i]); }
#endif
#if B_HALVES
@bind var<storage, read> b: array<vec4<u32>>;
fn b_at(i: u32) -> vec4<u32> { return b[i]; }
#endif
#if B_BF16
#import "shared/bf16.wgsl"
@bind var<storage, read> b: array<vec2<u32>>;
fn b_at(i: u32) -> vec4<f32> { return {{LOAD}}(bf16_unpack4(b[i])); }
#endif
#if B_CODES
@bind var<storage, read> b: array<u32>; // eight codes each, the first of two in the high half of a byte
@bind var<storage, read> b_maxima: array<f32>; // of 64 elements each
var<workgroup> b_levels: array<f32, 16>; // which codes stand for. Twin: {{CODES}}.Levels
fn b_at(i: u32) -> vec4<f32> {
    let c = (vec4<u32>(b[i / 2u] >> (16u * (i % 2u))) >> vec4<u32>(4u, 0u, 12u, 8u)) & vec4<u32>(15u);
    return {{LOAD}}(b_maxima[i / 16u] * vec4<f32>(b_levels[c.x], b_levels[c.y], b_levels[c.z], b_levels[c.w]));
}
#endif
