// Partial sums of optim_adafactor_sums to statistics: with S the sum of squares over n elements,
//     v <- beta v + (1 - beta) (S/n + eps)
// A leaf whose columns go on in other slabs carries S from slab to slab. Twin: (*optim.factoredTwin).update.
struct Params {
    blocks: u32,
}

struct Scalars {
    beta: f32,
    rest: f32, // 1 - beta
    eps: f32,
}

// Up to {{LANES}} sums, or fours of sums, one an invocation; T is a sum, or four. Filled in by optim/adafactor_tiles.go.
struct Block {
    partial: u32, // place of the first one's first partial sum, in T
    count: u32,   // partial sums of each
    stride: u32,  // from one to the next, in T
    entries: u32, // how many T
    out: u32,     // place of the first in values, in T
    flags: u32,   // 1: of columns, else of rows; 2: add what was carried; 4: carry on
    over_n: f32,
    pad: u32,
}

@bind var<uniform> params: Params;
@bind var<uniform> scalars: Scalars;
@bind var<storage, read> table: array<Block>;
@bind var<storage, read> row_sums: array<{{T}}>;
@bind var<storage, read> col_sums: array<{{T}}>;
@bind var<storage, read_write> carry: array<{{T}}>;
@bind var<storage, read_write> values: array<{{T}}>;
#if SKIP
@bind var<storage, read> statistics: array<vec4<u32>>;
#endif

// Four running sums: shorter chains of additions, each less rounding.
fn rows(at: u32, stride: u32, count: u32) -> {{T}} {
    var s0 = {{T}}(0.0);
    var s1 = {{T}}(0.0);
    var s2 = {{T}}(0.0);
    var s3 = {{T}}(0.0);
    let fours = count / 4u * 4u;
    for (var k = 0u; k < fours; k += 4u) {
        let i = at + k * stride;
        s0 += row_sums[i];
        s1 += row_sums[i + stride];
        s2 += row_sums[i + 2u * stride];
        s3 += row_sums[i + 3u * stride];
    }
    for (var k = fours; k < count; k++) { s0 += row_sums[at + k * stride]; }
    return (s0 + s1) + (s2 + s3);
}

fn cols(at: u32, stride: u32, count: u32) -> {{T}} {
    var s0 = {{T}}(0.0);
    var s1 = {{T}}(0.0);
    var s2 = {{T}}(0.0);
    var s3 = {{T}}(0.0);
    let fours = count / 4u * 4u;
    for (var k = 0u; k < fours; k += 4u) {
        let i = at + k * stride;
        s0 += col_sums[i];
        s1 += col_sums[i + stride];
        s2 += col_sums[i + 2u * stride];
        s3 += col_sums[i + 3u * stride];
    }
    for (var k = fours; k < count; k++) { s0 += col_sums[at + k * stride]; }
    return (s0 + s1) + (s2 + s3);
}

#import "shared/main.wgsl" LANES={{LANES}}
{
    let i = workgroup.y * workgroups.x + workgroup.x;
    if (i >= params.blocks) { return; }
    let block = table[i];
    if (lane >= block.entries) { return; }
    var total = {{T}}(0.0);
    if ((block.flags & 1u) == 0u) {
        total = rows(block.partial + lane, block.stride, block.count);
    } else {
        total = cols(block.partial + lane, block.stride, block.count);
    }
    let out = block.out + lane;
    if ((block.flags & 2u) != 0u) { total += carry[out]; }
    if ((block.flags & 4u) != 0u) {
        carry[out] = total;
        return;
    }
#if SKIP
    if (statistics[0].y != 0u) { return; }
#endif
    values[out] = scalars.beta * values[out] + scalars.rest * (total * block.over_n + scalars.eps);
}
