// place is where position j of a row lies in the cache; the row's blocks are listed from first on.
fn place(first: u32, j: u32) -> u32 {
    return u32(blocks[first + j / {{SIZE}}u]) * {{SIZE}}u + j % {{SIZE}}u;
}
