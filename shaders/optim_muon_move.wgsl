// Elements of leaves to their places in a stack of matrices (GATHER), or back, by a workgroup a run. Back, ADAPTIVE multiplies each
// matrix by its factor. Twin: (*optim.orthogonalTwin).step, which moves nothing.
struct Params {
    runs: u32,
    size: u32, // of a matrix in the stack
}

// Some of the elements of a part of a leaf, which is counted row by row. Filled in by optim/muon_stacks.go.
struct Run {
    corner: u32, // the part's first element in the slab
    line: u32,   // from row to row there
    width: u32,  // of the part
    first: u32,  // of the part's elements
    count: u32,
    base: u32,   // place of the part's first element in the stack
    down: u32,   // from row to row there
    across: u32, // and from column to column
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> table: array<Run>;
#if GATHER
@group(0) @binding(2) var<storage, read> update: array<f32>;
@group(0) @binding(3) var<storage, read_write> stack: array<f32>;
#else
@group(0) @binding(2) var<storage, read_write> update: array<f32>;
@group(0) @binding(3) var<storage, read> stack: array<f32>;
#endif
#if ADAPTIVE
@group(0) @binding(4) var<storage, read> factors: array<f32>;
#endif

@compute @workgroup_size({{LANES}})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let i = workgroup.y * workgroups.x + workgroup.x;
    if (i >= params.runs) { return; }
    let run = table[i];
    for (var e = lane; e < run.count; e += {{LANES}}u) {
        let row = (run.first + e) / run.width;
        let col = run.first + e - row * run.width;
        let here = run.corner + row * run.line + col;
        let there = run.base + row * run.down + col * run.across;
#if GATHER
        stack[there] = update[here];
#else
#if ADAPTIVE
        update[here] = stack[there] * factors[run.base / params.size];
#else
        update[here] = stack[there];
#endif
#endif
    }
}
