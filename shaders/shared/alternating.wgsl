// alternating is a permutation of 0 to n-1: 0, n-1, 1, n-2, and so on. Where work grows with the index, any run of them has its share of it: a
// software adapter gives each core one run of a dispatch's workgroups, and the dispatch is over with the slowest.
fn alternating(i: u32, n: u32) -> u32 {
    if (i % 2u == 1u) {
        return n - 1u - i / 2u;
    }
    return i / 2u;
}
