// The place of an invocation along the side of its tile, by every second bit of its index: a subgroup of 32 has 8 by 4 of them, whose neighbours
// read the same quads.
fn every_second(index: u32) -> u32 {
    return (index & 1u) | (index >> 1u & 2u) | (index >> 2u & 4u) | (index >> 3u & 8u);
}
