// kron_skew: R = Q' - Q of every matrix of a stack; exactly the negative of its own transpose. An invocation makes a quad of rows and
// columns above the diagonal, and the one that mirrors it. Twin: procrustesTwin.
struct Params {
    count: u32, // of matrices
    size: u32,  // of a matrix, in quads
    tiles: u32, // size (size + 1)/2
}

@bind var<uniform> p: Params;
@bind var<storage, read> q: array<vec4<f32>>;
@bind var<storage, read_write> r: array<vec4<f32>>;

#import "shared/main.wgsl" LANES=64
{
    let item = grid_index(workgroup, workgroups, lane, 64u);
    let z = item / p.tiles;
    if (z >= p.count) {
        return;
    }
    // Tile t of the upper triangle, column by column.
    let t = item % p.tiles;
    var col = u32((sqrt(8.0 * f32(t) + 1.0) - 1.0) * 0.5);
    if (col * (col + 1u) / 2u > t) { col = col - 1u; }
    if ((col + 1u) * (col + 2u) / 2u <= t) { col = col + 1u; }
    let row = t - col * (col + 1u) / 2u;
    let n4 = p.size;
    let above = (z * 4u * n4 + 4u * row) * n4 + col;
    let below = (z * 4u * n4 + 4u * col) * n4 + row;
#for I in 0..4
    let a{{I}} = q[above + {{I}}u * n4];
    let b{{I}} = q[below + {{I}}u * n4];
#end
#for I in 0..4
    let d{{I}} = vec4<f32>(b0[{{I}}], b1[{{I}}], b2[{{I}}], b3[{{I}}]) - a{{I}};
    r[above + {{I}}u * n4] = d{{I}};
#end
    if (row != col) {
#for I in 0..4
        r[below + {{I}}u * n4] = -vec4<f32>(d0[{{I}}], d1[{{I}}], d2[{{I}}], d3[{{I}}]);
#end
    }
}
