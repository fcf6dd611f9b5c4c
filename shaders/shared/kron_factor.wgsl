// The tables of diagonal factors. A factor is a row of elements, kept in fours; an item is a chunk of it, what one workgroup does.

struct Factor {
    first: u32,  // its first chunk; the chunks of a factor follow each other
    chunks: u32,
    block: u32,
    side: u32,   // 0 left, 1 right
    s: f32,      // what T is wanted to be
    kind: u32,   // which of the base keys of the update
    stack: u32,  // place among the blocks that draw with it
    leaf: u32,
}

struct Item {
    factor: u32,
    four: u32,   // where it begins in q and t, in fours
    first: u32,  // and in its factor, in elements
    count: u32,  // elements
    place: u32,  // where it begins in what it comes from: a slab of the updates, or partial sums
    chunk: u32,
    step: u32,   // partial sums: from element to element,
    stride: u32, // and from sum to sum of one element
    sums: u32,
}
