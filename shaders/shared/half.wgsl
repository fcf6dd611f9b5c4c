// half4 rounds to the nearest numbers of f16, ties to even, as the conversions of matrix units do; pack2x16float may round otherwise. From 65520 on that is
// infinity. Twin: array.EncodeF16.
fn half4(v: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(v);
    let size = bits & vec4<u32>(0x7fffffffu);
    let normal = (bits + vec4<u32>(0xfffu) + ((bits >> vec4<u32>(13u)) & vec4<u32>(1u))) & vec4<u32>(0xffffe000u);
    let infinite = (bits & vec4<u32>(0x80000000u)) | vec4<u32>(0x7f800000u);
    let rounded = select(select(normal, infinite, size >= vec4<u32>(0x477ff000u)), bits, size >= vec4<u32>(0x7f800000u)); // infinities and NaN stay
    // Below 2^-14 they are multiples of 2^-24.
    return select(bitcast<vec4<f32>>(rounded), round(v * 0x1p24) * 0x1p-24, size < vec4<u32>(0x38800000u));
}
fn half1(x: f32) -> f32 { return half4(vec4<f32>(x)).x; }
