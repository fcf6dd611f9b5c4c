// A tile is what a workgroup handles of a block: whole rows of it in one slab, and rows of padding below. Twin: tile in kron/stack.go.
struct Tile {
    source: u32, // element of the slab where the first row begins
    stride: u32, // elements from row to row
    rows: u32,   // valid
    cols: u32,
    at: u32,     // quad of the stacks where it begins
    width: u32,  // quads of a row
    quads: u32,  // in all
    spot: u32,   // number of the block
    row: u32,    // of the block, of the first one
    unused: array<u32, 3>,
}
