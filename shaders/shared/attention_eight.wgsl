// Eight numbers of the head that starts at at, rounded to f16.
fn {{FN}}(at: u32, eight: u32) -> vec4<u32> {
    return matrix_eight({{FROM}}[at + 2u * eight], {{FROM}}[at + 2u * eight + 1u]);
}
