// Where a block of the dense stack and its two factors lie in a chunk, in quads. Twin: spotEntry in kron/dense_chunk.go.
struct Spot {
    stack: u32,             // global index
    rows: u32, cols: u32,   // valid
    at: u32, quads: u32,    // of G
    left_at: u32, left_quads: u32,
    right_at: u32, right_quads: u32,
    left: u32, right: u32,  // numbers of its sides
    unused: u32,
}
