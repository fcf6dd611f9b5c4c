// kron_carry: blocks of leaves, out of a slab into stacks with zeros around them, or SCATTER back. A workgroup carries one tile. VECTOR: all
// rows are whole vec4 of the slab.
// Twin: piecesOf in kron/stack.go.
#import "shared/kron_tile.wgsl"

struct Params {
    first: u32, // tile of this slab
    count: u32,
}

@bind var<uniform> p: Params;
@bind var<storage, read> tiles: array<Tile>;
#if SCATTER
@bind var<storage, read_write> slab: array<{{ELEMENT}}>;
@bind var<storage, read> stacks: array<vec4<f32>>;
#else
@bind var<storage, read> slab: array<{{ELEMENT}}>;
@bind var<storage, read_write> stacks: array<vec4<f32>>;
#endif

const lanes = 64u;

#import "shared/main.wgsl" LANES=64
{
    let number = workgroup.y * workgroups.x + workgroup.x;
    if (number >= p.count) {
        return;
    }
    let t = tiles[p.first + number];
    // Row and column go along by additions: a division costs as much as the loads.
    let down = lanes / t.width;
    let across = lanes % t.width;
    var row = lane / t.width;
    var col = lane % t.width;
    for (var q = lane; q < t.quads; q += lanes) {
        let e = t.source + row * t.stride + 4u * col;
        let left = i32(t.cols) - i32(4u * col); // valid elements from here on
#if VECTOR
#if SCATTER
        if (row < t.rows && left > 0) { slab[e / 4u] = stacks[t.at + q]; }
#else
        var v = vec4<f32>();
        if (row < t.rows && left > 0) { v = slab[e / 4u]; }
        stacks[t.at + q] = v;
#endif
#else
#if SCATTER
        if (row < t.rows && left > 0) {
            let v = stacks[t.at + q];
            slab[e] = v.x;
            if (left > 1) { slab[e + 1u] = v.y; }
            if (left > 2) { slab[e + 2u] = v.z; }
            if (left > 3) { slab[e + 3u] = v.w; }
        }
#else
        var v = vec4<f32>();
        if (row < t.rows && left > 0) {
            v.x = slab[e];
            if (left > 1) { v.y = slab[e + 1u]; }
            if (left > 2) { v.z = slab[e + 2u]; }
            if (left > 3) { v.w = slab[e + 3u]; }
        }
        stacks[t.at + q] = v;
#endif
#endif
        row += down;
        col += across;
        if (col >= t.width) {
            col -= t.width;
            row += 1u;
        }
    }
}
