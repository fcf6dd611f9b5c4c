// The diagonal side of strips of matrices, row by row: y <- q^2 y, which makes it P, and T = the sum of the row's squares. Twin:
// (*factor).applyLeft, rowSquares.
#import "shared/bf16.wgsl"

struct Params {
    blocks: u32,
    rows: u32,  // of the strip of a block,
    longs: u32, // of which are valid
    first: u32, // of the long side
    width: u32, // fours of a row
}

@bind var<uniform> params: Params;
@bind var<storage, read> places: array<u32>; // of the diagonal factor of each block, in fours of q and t
#if BF16
@bind var<storage, read> q: array<vec2<u32>>;
#else
@bind var<storage, read> q: array<vec4<f32>>;
#endif
@bind var<storage, read_write> y: array<vec4<f32>>;
@bind var<storage, read_write> t: array<f32>;

const largest = vec4<f32>(1e12); // so that Gram matrices, times factors that are as large as can be, stay finite

fn element(i: u32) -> f32 {
#if BF16
    return bf16_unpack4(q[i / 4u])[i % 4u];
#else
    return q[i / 4u][i % 4u];
#endif
}

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    let block = i / params.rows;
    let row = i % params.rows;
    if (block < params.blocks && row < params.longs) { // what is below is zero
        let at = 4u * places[block] + params.first + row;
        let f = element(at);
        var sum = vec4<f32>(0.0);
        for (var k = 0u; k < params.width; k++) {
            let v = clamp(f * (f * y[i * params.width + k]), -largest, largest);
            y[i * params.width + k] = v;
            sum += v * v;
        }
        t[at] = (sum.x + sum.y) + (sum.z + sum.w);
    }
}
