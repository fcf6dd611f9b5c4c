// kron_noise: noisy = G + deviation normal(k2, (row, column)) for the dense blocks; rows are counted as if blocks were padded to full ones.
// Of the padding the last quads of rows get noise too: the factors are zero there. A workgroup handles one tile. BLOCKWISE: a deviation a
// block. Twin: (*twinBlock).refresh.
#import "shared/threefry.wgsl"
#import "shared/normal.wgsl"
#import "shared/kron.wgsl"
#import "shared/kron_spot.wgsl"
#import "shared/kron_tile.wgsl"

struct Params {
    count: u32,  // of tiles
    stride: u32, // BlockSize
    deviation: f32,
}

@bind var<uniform> p: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> tiles: array<Tile>;
@bind var<storage, read> spots: array<Spot>;
@bind var<storage, read> g: array<vec4<f32>>;
@bind var<storage, read_write> noisy: array<vec4<f32>>;
#if BLOCKWISE
@bind var<storage, read> deviation: array<f32>;
#endif

const lanes = 64u;

fn draw(key: vec2<u32>, index: u32) -> f32 { return {{NORMAL}}(threefry_bits(key, vec2<u32>(0u, index))); }

#import "shared/main.wgsl" LANES=64
{
    let number = workgroup.y * workgroups.x + workgroup.x;
    if (number >= p.count) {
        return;
    }
    let t = tiles[number];
    let key = threefry_fold(kron_block_key(update.dense, spots[t.spot].stack), 1u);
#if BLOCKWISE
    let scale = deviation[t.spot];
#else
    let scale = p.deviation;
#endif
    let down = lanes / t.width;
    let across = lanes % t.width;
    var row = lane / t.width;
    var col = lane % t.width;
    for (var i = lane; i < t.quads; i += lanes) {
        let at = (t.row + row) * p.stride + 4u * col;
        var n = vec4<f32>();
        if (row < t.rows && 4u * col < t.cols) {
            n = vec4<f32>(draw(key, at), draw(key, at + 1u), draw(key, at + 2u), draw(key, at + 3u));
        }
        noisy[t.at + i] = g[t.at + i] + scale * n;
        row += down;
        col += across;
        if (col >= t.width) {
            col -= t.width;
            row += 1u;
        }
    }
}
