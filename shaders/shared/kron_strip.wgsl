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

const share_fours = 1024u; // of a workgroup: 16 a lane, as a patch is long to read

// Place is where a lane is in its share: a row of the patch, and a four of the dense side.
struct Place {
    row: u32,
    four: u32,
}

fn place_first(p: Patch, i: u32) -> Place {
    let across = (p.fill + 3u) / 4u - p.begin / 4u;
    return Place(i / across, p.begin / 4u + i % across);
}

// place_next is 64 further, without a division: those are slow where vectors of integers have none.
fn place_next(s: Place, p: Patch, step: vec2<u32>) -> Place {
    let end = (p.fill + 3u) / 4u;
    var next = Place(s.row + step.x, s.four + step.y);
    if (next.four >= end) {
        next.four -= end - p.begin / 4u;
        next.row += 1u;
    }
    return next;
}

fn place_step(p: Patch) -> vec2<u32> {
    let across = (p.fill + 3u) / 4u - p.begin / 4u;
    return vec2<u32>(64u / across, 64u % across);
}

// place_end is one past the last four of a share.
fn place_end(p: Patch, first: u32) -> u32 {
    return min(first + share_fours, ((p.fill + 3u) / 4u - p.begin / 4u) * p.rows);
}
