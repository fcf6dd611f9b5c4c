// JAX's counter-based generator; twin: package buffers/prng.

fn threefry_rotate(x: u32, r: u32) -> u32 { return (x << r) | (x >> (32u - r)); }

fn threefry_round(x: vec2<u32>, r: u32) -> vec2<u32> {
    let sum = x.x + x.y;
    return vec2<u32>(sum, threefry_rotate(x.y, r) ^ sum);
}

fn threefry_four(x: vec2<u32>, r: vec4<u32>) -> vec2<u32> {
    return threefry_round(threefry_round(threefry_round(threefry_round(x, r.x), r.y), r.z), r.w);
}

// threefry is threefry-2x32 with 20 rounds. Twin: prng.Key.Hash.
fn threefry(key: vec2<u32>, counter: vec2<u32>) -> vec2<u32> {
    let even = vec4<u32>(13u, 15u, 26u, 6u);
    let odd = vec4<u32>(17u, 29u, 16u, 24u);
    let third = key.x ^ key.y ^ 0x1BD11BDAu;
    var x = threefry_four(counter + key, even) + vec2<u32>(key.y, third + 1u);
    x = threefry_four(x, odd) + vec2<u32>(third, key.x + 2u);
    x = threefry_four(x, even) + vec2<u32>(key.x, key.y + 3u);
    x = threefry_four(x, odd) + vec2<u32>(key.y, third + 4u);
    return threefry_four(x, even) + vec2<u32>(third, key.x + 5u);
}

// threefry_fold derives a key from a number. Twin: prng.Key.FoldIn.
fn threefry_fold(key: vec2<u32>, data: u32) -> vec2<u32> { return threefry(key, vec2<u32>(0u, data)); }

// threefry_bits is element `index` (high, low word) of an array of random words. Twin: prng.Key.Bits32.
fn threefry_bits(key: vec2<u32>, index: vec2<u32>) -> u32 {
    let y = threefry(key, index);
    return y.x ^ y.y;
}

// threefry_uniform makes a random word an f32 in [0, 1). Twin: prng.Key.Uniform.
fn threefry_uniform(bits: u32) -> f32 { return bitcast<f32>((bits >> 9u) | 0x3f800000u) - 1.0; }
