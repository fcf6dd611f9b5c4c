// What the histogram kernels share. A leaf has these words: the complement of the least key of its finite elements, their greatest key, how
// many they are, mean and sum of squared distances from it (f32, scaled), three spare, and the bins.
const HISTOGRAM_WORDS: u32 = {{WORDS}}u;
const HISTOGRAM_BINS: u32 = {{BINS}}u;
const HISTOGRAM_FIRST: u32 = HISTOGRAM_WORDS - HISTOGRAM_BINS; // of the bins

// histogram_live is 1 for the finite ones of four elements that are among the first `room`, else 0.
fn histogram_live(bits: vec4<u32>, room: u32) -> vec4<u32> {
    let exponent = vec4<u32>(0x7f800000u);
    let finite = select(vec4<u32>(0u), vec4<u32>(1u), (bits & exponent) != exponent);
    return select(vec4<u32>(0u), finite, vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(room));
}

// histogram_keys maps floats to integers in the same order; those of finite ones lie between 0x00800000 and 0xff7fffff.
fn histogram_keys(bits: vec4<u32>) -> vec4<u32> {
    return select(bits | vec4<u32>(0x80000000u), ~bits, bits >= vec4<u32>(0x80000000u));
}

// histogram_bits is its inverse.
fn histogram_bits(key: u32) -> u32 { return select(~key, key & 0x7fffffffu, key >= 0x80000000u); }

// histogram_scale is the power of two that brings the larger magnitude of two between 1 and 2 where that is a normal number (between 2
// and 4 for the largest): squares of scaled elements do not overflow. Twin: histogram.scaleOf.
fn histogram_scale(low: u32, high: u32) -> f32 {
    let exponent = max((low >> 23u) & 0xffu, (high >> 23u) & 0xffu);
    return bitcast<f32>(max(1u, 254u - min(exponent, 254u)) << 23u);
}
