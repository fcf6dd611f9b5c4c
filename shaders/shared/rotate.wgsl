// The pair (a, b) = (x[i], x[i + half]) of a head is turned by the angle of its token's position: rotations[t] has the cosines of its pairs, then the
// sines; t is the index of the token in its sequence, or what is said of it. INVERSE: turned back.
#if POSITIONS
@bind var<storage, read> positions: array<i32>;
#endif
@bind var<storage, read> rotations: array<{{T}}>;

// Where the cosine of the first pair of a token is.
fn rotation_of(token: u32) -> u32 {
#if POSITIONS
    return u32(positions[token]) * 2u * params.half;
#else
    return token % params.positions * 2u * params.half;
#endif
}

fn rotated_low(a: {{T}}, b: {{T}}, angle: u32) -> {{T}} {
#if INVERSE
    return a * rotations[angle] + b * rotations[angle + params.half];
#else
    return a * rotations[angle] - b * rotations[angle + params.half];
#endif
}

fn rotated_high(a: {{T}}, b: {{T}}, angle: u32) -> {{T}} {
#if INVERSE
    return b * rotations[angle] - a * rotations[angle + params.half];
#else
    return b * rotations[angle] + a * rotations[angle + params.half];
#endif
}
