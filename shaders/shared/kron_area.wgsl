// The tables of matrices whose factors are both diagonal. An area is what of a block lies in one slab, a group is what one workgroup does
// of it: each lane a tile of tile_rows rows and of the fours of columns lane, lane + across, ..., tile_fours of them, where `across`
// lanes make a row of tiles.

struct Area {
    place: u32,   // in the slab
    rows: u32,
    cols: u32,
    row: u32,     // of the block, with which it begins
    left: u32,    // elements of q before those of the block's left factor
    right: u32,   // and fours before those of its right factor
    across: u32,
    by_row: u32,  // where the sums of rows of the block begin: across for each row
    by_col: u32,  // and of columns of the area: 4 for each four, for each row of tiles
    block: u32,
    kind: u32,
    stack: u32,
    leaf: u32,
}

struct Group {
    area: u32,
    first: u32, // lane of the area
    sum: u32,   // place of its sum of squares
}

const tile_rows = 16u;
const tile_fours = 4u;
