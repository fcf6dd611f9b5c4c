// The diagonal side of strips of matrices, row by row: y <- q^2 y, which makes it P, and T = the sum of the row's squares. Twin:
// (*factor).applyLeft, rowSquares.

struct Params {
    blocks: u32,
    rows: u32,  // of the strip of a block,
    longs: u32, // of which are valid
    first: u32, // of the long side
    width: u32, // fours of a row
}

@bind var<uniform> params: Params;
@bind var<storage, read> places: array<u32>; // of the diagonal factor of each block, in fours of q and t
#import "shared/kron_fours.wgsl" NAME=q ACCESS=read
@bind var<storage, read_write> y: array<vec4<f32>>;
@bind var<storage, read_write> t: array<f32>;

const largest = vec4<f32>(1e12); // so that Gram matrices, times factors that are as large as can be, stay finite

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    let block = i / params.rows;
    let row = i % params.rows;
    if (block < params.blocks && row < params.longs) { // what is below is zero
        let at = 4u * places[block] + params.first + row;
        let f = q_at(at / 4u)[at % 4u];
        var sum = vec4<f32>(0.0);
        for (var k = 0u; k < params.width; k++) {
            let v = clamp(f * (f * y[i * params.width + k]), -largest, largest);
            y[i * params.width + k] = v;
            sum += v * v;
        }
        t[at] = (sum.x + sum.y) + (sum.z + sum.w);
    }
}
