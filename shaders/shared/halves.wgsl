// Four elements in f16, two to a u32, the element of the lower index in the low half; what half4 (half.wgsl) has rounded is exact. Twin: array.EncodeF16.
fn half_pack4(v: vec4<f32>) -> vec2<u32> {
    let r = half4(v);
    return vec2<u32>(pack2x16float(r.xy), pack2x16float(r.zw));
}
fn half_unpack4(w: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)); }
