// One call of an optimizer over one slab: u = g through the elements of a chain, p <- p + u, and their state; or the
// accumulation of g alone. Twin: optim.Twin. The elements, loads and stores are put in by optim/fuse.go.
#import "shared/grid.wgsl"
#import "shared/bf16.wgsl"
#import "shared/threefry.wgsl"
#import "shared/optim.wgsl"

struct Params {
    vecs: u32,   // of the slab, four elements each
    values: u32, // where in table the values of the leaves begin
}

// The scalars of this call, f32 bits, and last the index of the update.
struct Scalars {
    words: array<vec4<u32>, {{SCALARS}}>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<uniform> scalars: Scalars;
// g_data and the other trees, slab by slab; table: a few words a block of 128 elements, then the values of the leaves:
// word 0 = leaf << 8 | elements in use, word 1 = key of the path, word 2 = index in the leaf of the block's first vec4.
{{BINDINGS}}
@compute @workgroup_size({{LANES}})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let i = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (i >= params.vecs) { return; }
    let entry = (i >> 5u) * {{STRIDE}}u;
    let block = table[entry];
    let used = i32(block & 0xffu) - i32((i & 31u) * 4u);
    if (used <= 0) { return; }
    let live = vec4<i32>(used) > vec4<i32>(0, 1, 2, 3);
    let values = params.values + (block >> 8u) * {{COLUMNS}}u;
{{LOADS}}
{{BODY}}
{{STORES}}
}
