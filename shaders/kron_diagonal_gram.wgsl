// Gram matrices out of those of slices, in a fixed order; of a strip that is not the first, added to those of the strips before it.

struct Params {
    blocks: u32,
    slices: u32, // of a block
    fours: u32,  // of a matrix
    add: u32,    // 1: to what is there
}

@bind var<uniform> params: Params;
@bind var<storage, read> partials: array<vec4<f32>>;
@bind var<storage, read_write> grams: array<vec4<f32>>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    let block = i / params.fours;
    if (block < params.blocks) {
        var sum = vec4<f32>(0.0);
        if (params.add == 1u) { sum = grams[i]; }
        let first = block * params.slices * params.fours + i % params.fours;
        for (var k = 0u; k < params.slices; k++) { sum += partials[first + k * params.fours]; }
        grams[i] = sum;
    }
}
