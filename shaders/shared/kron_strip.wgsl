// The tables of matrices with one diagonal side, which is long. They are gathered in strips: stretches of the long side of a few blocks,
// each block [rows, 4 width] with the long side going down, whichever way it goes in its leaf. A patch is what of a strip of a block lies
// in one slab, a share is what a workgroup does of it: fours of the patch from `first` on.

struct Patch {
    place: u32,      // in the slab, of the first of the long side and 0 of the dense one
    long: u32,       // elements of the slab from one to the next of the long side
    dense: u32,      // and of the dense side
    longs: u32,      // valid ones
    rows: u32,       // and with padding
    begin: u32,      // of the dense side
    end: u32,        // valid ones
    fill: u32,       // and with padding
    at: u32,         // four of the strip, of its first row
    width: u32,      // fours of a row
    draw: u32,       // index of the noise, its steps along the long side and the dense one
    draw_long: u32,
    draw_dense: u32,
    block: u32,
    kind: u32,
    stack: u32,
    leaf: u32,
    q: u32,          // element of the diagonal factor of the first row
}

struct Share {
    patch_: u32,
    first: u32,
    sum: u32, // place of its sum of squares
}

const share_fours = 256u; // of a workgroup
