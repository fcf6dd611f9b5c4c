// A tile of a matrix within a leaf; T is an element, or four. Filled in by optim/adafactor_tiles.go.
struct Tile {
    first: u32,    // its first T in the slab
    line: u32,     // from row to row, in T
    rows: u32,
    cols: u32,     // in T
    row_sum: u32,  // place of its first row's partial sum
    row_step: u32, // from row to row, there and in the statistics
    col_sum: u32,  // place of its first columns' partial sums, in T
    inner: u32,    // from column to column, everywhere; 1 where T is four elements
    by_row: u32,   // place of its first row in the statistics
    by_col: u32,   // and of its first columns, in T
    mean: u32,     // which matrix
    pad: u32,
}
