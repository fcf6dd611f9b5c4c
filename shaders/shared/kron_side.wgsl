// The dense sides of the blocks of a batch of matrices with one diagonal side.
struct Side {
    block: u32,
    kind: u32,
    stack: u32,
    leaf: u32,
    s: f32,
    side: u32, // 0 left, 1 right
    place: u32, // of its L
}
