// divided is i / d for i below 2^21, from the f32 nearest to 1/d: i + 1/2 is exact, and (i + 1/2) / d, which is 1/(2d) or more from the next whole number,
// is rounded by less than that. Twin: TestDivided in graph/compile.
fn divided(i: u32, reciprocal: f32) -> u32 {
    return u32(i32((f32(i32(i)) + 0.5) * reciprocal)); // of i32, which devices turn into f32 in one instruction
}
