// Draws from the standard normal distribution out of random words (threefry_bits). Twin: package buffers/prng.

// normal_log1m_square is log(1-x*x) for x = m/2^24, m odd and below 2^24. The square is rounded to 24 bits as in f32, but by
// integers, and the logarithm is made of sums and products, so that adapters differ in no more than contractions. The square
// of an odd number is odd, so it never lies halfway between two that it is rounded to.
fn normal_log1m_square(m: u32) -> f32 {
    // m*m/2^24, rounded to nearest, from twelve-bit halves.
    let high = m >> 12u;
    let low = m & 0xfffu;
    let cross = 2u * high * low + ((low * low) >> 12u);
    let rest = ((cross & 0xfffu) << 12u) | ((low * low) & 0xfffu);
    var square = high * high + (cross >> 12u);
    if (rest > 0x800000u) { square = square + 1u; }
    // y = (2^24 - square)/2^24 = f 2^e with f in [sqrt(1/2), sqrt(2)); then the series of Cephes' logf.
    let bits = bitcast<u32>(f32(0x1000000u - square));
    var e = f32(bits >> 23u) - 127.0 - 24.0;
    var f = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
    if (f > 1.4142135) {
        f = f * 0.5;
        e = e + 1.0;
    }
    let t = f - 1.0;
    var p = 7.0376836292e-2;
    p = p * t - 1.1514610310e-1;
    p = p * t + 1.1676998740e-1;
    p = p * t - 1.2420140846e-1;
    p = p * t + 1.4249322787e-1;
    p = p * t - 1.6668057665e-1;
    p = p * t + 2.0000714765e-1;
    p = p * t - 2.4999993993e-1;
    p = p * t + 3.3333331174e-1;
    let tail = t * t * t * p - 2.12194440e-4 * e - 0.5 * t * t;
    return t + tail + 0.693359375 * e;
}

// normal_f32 is sqrt(2) erfinv(x), by Giles' single-precision polynomial in w = -log(1-x*x). Twin: prng.Key.Normal.
fn normal_f32(bits: u32) -> f32 {
    // x = 2 (bits>>9)/2^23 - 1 + 2^-24, in units of 2^-24.
    let n = i32((bits >> 9u) * 4u + 1u) - 0x1000000;
    let x = f32(n) * 5.9604644775390625e-8;
    let w = -normal_log1m_square(u32(abs(n)));
    var p: f32;
    if (w < 5.0) {
        let v = w - 2.5;
        p = 2.81022636e-08;
        p = p * v + 3.43273939e-07;
        p = p * v - 3.5233877e-06;
        p = p * v - 4.39150654e-06;
        p = p * v + 0.00021858087;
        p = p * v - 0.00125372503;
        p = p * v - 0.00417768164;
        p = p * v + 0.246640727;
        p = p * v + 1.50140941;
    } else {
        let v = sqrt(w) - 3.0;
        p = -0.000200214257;
        p = p * v + 0.000100950558;
        p = p * v + 0.00134934322;
        p = p * v - 0.00367342844;
        p = p * v + 0.00573950773;
        p = p * v - 0.0076224613;
        p = p * v + 0.00943887047;
        p = p * v + 1.00167406;
        p = p * v + 2.83297682;
    }
    return 1.41421356 * (p * x);
}

// The 128 values of a bfloat16 draw, two to a word: entry j in half j & 1 of word j / 2.
var<private> normal_bf16_table: array<u32, 64> = array<u32, 64>(
    0xc015c039u, 0xbffac007u, 0xbfdebfebu, 0xbfcabfd4u, 0xbfbbbfc2u, 0xbfadbfb4u, 0xbfa1bfa7u, 0xbf97bf9cu,
    0xbf8dbf92u, 0xbf84bf88u, 0xbf79bf80u, 0xbf69bf70u, 0xbf5abf61u, 0xbf4cbf53u, 0xbf3fbf45u, 0xbf31bf38u,
    0xbf25bf2bu, 0xbf19bf1fu, 0xbf0dbf13u, 0xbf01bf07u, 0xbeecbef7u, 0xbed6bee1u, 0xbec0beccu, 0xbeabbeb5u,
    0xbe96bea0u, 0xbe81be8bu, 0xbe5abe6eu, 0xbe30be45u, 0xbe08be1cu, 0xbdbfbde6u, 0xbd5dbd97u, 0xbc70bd0du,
    0x3cc93ba0u, 0x3d823d34u, 0x3dd33daau, 0x3e123dfcu, 0x3e3b3e26u, 0x3e643e4eu, 0x3e863e77u, 0x3e9c3e91u,
    0x3eb03ea5u, 0x3ec63ebbu, 0x3edb3ed1u, 0x3ef23ee6u, 0x3f043efdu, 0x3f103f0au, 0x3f1c3f16u, 0x3f283f22u,
    0x3f343f2eu, 0x3f423f3bu, 0x3f503f49u, 0x3f5e3f57u, 0x3f6c3f65u, 0x3f7c3f75u, 0x3f863f82u, 0x3f903f8bu,
    0x3f993f94u, 0x3fa43f9fu, 0x3fb13faau, 0x3fbf3fb8u, 0x3fd03fc6u, 0x3fe53fdau, 0x40013ff2u, 0x4021400du,
);

// normal_bf16 uses the lowest eight bits but one. Twin: prng.Key.NormalBF16.
fn normal_bf16(bits: u32) -> f32 {
    let j = (bits & 0xffu) >> 1u;
    let word = normal_bf16_table[j >> 1u];
    if ((j & 1u) == 1u) { return bitcast<f32>(word & 0xffff0000u); }
    return bitcast<f32>(word << 16u);
}
