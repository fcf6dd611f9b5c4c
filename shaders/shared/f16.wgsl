// f16, two to a u32, the element of the lower index in the low half. Rounding is to nearest, ties to even, by integers, so that it is the same on every
// adapter; from 65520 on it is infinity, below 2^-14 a multiple of 2^-24. Twins: array.EncodeF16, DecodeF16.
fn f16_bits(v: vec4<f32>) -> vec4<u32> {
    let bits = bitcast<vec4<u32>>(v);
    let size = bits & vec4<u32>(0x7fffffffu);
    let normal = (size - vec4<u32>(0x38000000u) + vec4<u32>(0xfffu) + ((size >> vec4<u32>(13u)) & vec4<u32>(1u))) >> vec4<u32>(13u);
    let large = select(min(normal, vec4<u32>(0x7c00u)), vec4<u32>(0x7e00u), size > vec4<u32>(0x7f800000u));
    let small = vec4<u32>(round(min(abs(v), vec4<f32>(1.0)) * 0x1p24));
    return select(large, small, size < vec4<u32>(0x38800000u)) | ((bits >> vec4<u32>(16u)) & vec4<u32>(0x8000u));
}

fn f16_pack4(v: vec4<f32>) -> vec2<u32> {
    let b = f16_bits(v);
    return b.xz | (b.yw << vec2<u32>(16u));
}

// f16_split is the inverse of packing, in the bits of f32.
fn f16_split(w: vec2<u32>) -> vec4<u32> {
    let h = vec4<u32>(w.x & 0xffffu, w.x >> 16u, w.y & 0xffffu, w.y >> 16u);
    let size = h & vec4<u32>(0x7fffu);
    let normal = (size << vec4<u32>(13u)) + vec4<u32>(0x38000000u);
    let large = select(normal, normal + vec4<u32>(0x38000000u), size >= vec4<u32>(0x7c00u));
    let small = bitcast<vec4<u32>>(vec4<f32>(size) * 0x1p-24);
    return select(large, small, size < vec4<u32>(0x400u)) | ((h & vec4<u32>(0x8000u)) << vec4<u32>(16u));
}

fn f16_unpack4(w: vec2<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(f16_split(w)); }
fn f16_unpack1(w: u32) -> f32 { return f16_unpack4(vec2<u32>(w, 0u)).x; }
