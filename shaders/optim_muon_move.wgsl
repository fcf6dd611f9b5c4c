// Elements of leaves to their places in a stack of matrices (GATHER), or back, by a workgroup a run: one by one, or by BLOCKS of 4x4, which
// a matrix that lies transposed in its leaf takes turned. Back, ADAPTIVE multiplies each matrix by its factor. Twin:
// (*optim.orthogonalTwin).step, which moves nothing.
struct Params {
    runs: u32,
    size: u32, // of a matrix in the stack, in T
}

// Some of the elements, or blocks, of a part of a leaf, which is counted row by row; T is an element, or the four of a block's row. Filled in
// by optim/muon_stacks.go.
struct Run {
    corner: u32, // the part's first T in the slab
    line: u32,   // from row to row there
    width: u32,  // of the part, in elements or blocks
    first: u32,  // of the part's elements or blocks
    count: u32,
    base: u32,   // place of the part's first T in the stack
    down: u32,   // from row to row of elements or blocks there
    across: u32, // and from column to column
}

@bind var<uniform> params: Params;
@bind var<storage, read> table: array<Run>;
#if GATHER
@bind var<storage, read> update: array<{{T}}>;
@bind var<storage, read_write> stack: array<{{T}}>;
#else
@bind var<storage, read_write> update: array<{{T}}>;
@bind var<storage, read> stack: array<{{T}}>;
#endif
#if ADAPTIVE
@bind var<storage, read> factors: array<f32>;
#endif

#import "shared/main.wgsl" LANES={{LANES}}
{
    let i = workgroup.y * workgroups.x + workgroup.x;
    if (i >= params.runs) { return; }
    let run = table[i];
#if ADAPTIVE
    let factor = factors[run.base / params.size];
#endif
#if BLOCKS
    let line = max(run.down, run.across) / 4u; // from row to row of the stack
#endif
    for (var e = lane; e < run.count; e += {{LANES}}u) {
        let row = (run.first + e) / run.width;
        let col = run.first + e - row * run.width;
        let there = run.base + row * run.down + col * run.across;
#if BLOCKS
        let here = run.corner + 4u * row * run.line + col;
#if GATHER
        var block = mat4x4<f32>(update[here], update[here + run.line], update[here + 2u * run.line], update[here + 3u * run.line]);
#else
        var block = mat4x4<f32>(stack[there], stack[there + line], stack[there + 2u * line], stack[there + 3u * line]);
#if ADAPTIVE
        block = block * factor;
#endif
#endif
        if (run.across > 1u) { block = transpose(block); }
#if GATHER
        stack[there] = block[0];
        stack[there + line] = block[1];
        stack[there + 2u * line] = block[2];
        stack[there + 3u * line] = block[3];
#else
        update[here] = block[0];
        update[here + run.line] = block[1];
        update[here + 2u * run.line] = block[2];
        update[here + 3u * run.line] = block[3];
#endif
#else
        let here = run.corner + row * run.line + col;
#if GATHER
        stack[there] = update[here];
#else
#if ADAPTIVE
        update[here] = stack[there] * factor;
#else
        update[here] = stack[there];
#endif
#endif
#endif
    }
}
