// The root mean square of a gradient. Squares of numbers from 1e-32 to 1e32 need three scales: a sum has those of x 2^-64, x and
// x 2^64, and the largest |x|.

fn rms_of(x: f32) -> vec4<f32> {
    let low = x * 0x1p-64;
    let high = x * 0x1p+64;
    return vec4<f32>(low * low, x * x, high * high, abs(x));
}

fn rms_of4(x: vec4<f32>) -> vec4<f32> {
    let low = x * 0x1p-64;
    let high = x * 0x1p+64;
    let size = max(abs(x.xy), abs(x.zw));
    return vec4<f32>(dot(low, low), dot(x, x), dot(high, high), max(size.x, size.y));
}

fn rms_join(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return vec4<f32>(a.xyz + b.xyz, max(a.w, b.w)); }

// inverse is 1 over the number of elements.
fn rms_root(sum: vec4<f32>, inverse: f32) -> f32 {
    if (sum.w > 0x1p+40) { return sqrt(sum.x * inverse) * 0x1p+64; }
    if (sum.w < 0x1p-40) { return sqrt(sum.z * inverse) * 0x1p-64; }
    return sqrt(sum.y * inverse);
}
