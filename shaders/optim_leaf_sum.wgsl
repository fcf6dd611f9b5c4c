// Sum of squares of the update u as it stands before an element of a chain, or of the parameters, over one slab: one
// number a block of 128 elements, which never has two leaves. Twin: (*optim.Twin).measure. The elements and loads are put in by
// optim/fuse.go.
#import "shared/grid.wgsl"
#import "shared/bf16.wgsl"
#import "shared/threefry.wgsl"
#import "shared/optim.wgsl"

struct Params {
    vecs: u32,   // of the slab, four elements each
    values: u32, // where in table the values of the leaves begin
    base: u32,   // place in block_sums of this slab's first block
    leaves: u32, // entries of each sum in leaf_sums
}

// The scalars of this call, f32 bits, and last the index of the update.
struct Scalars {
    words: array<vec4<u32>, {{SCALARS}}>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<uniform> scalars: Scalars;
{{BINDINGS}}
@compute @workgroup_size({{LANES}})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let n = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (n * 32u >= params.vecs) { return; }
    let entry = n * {{STRIDE}}u;
    let block = table[entry];
    let values = params.values + (block >> 8u) * {{VALUES}}u;
    let count = ((block & 0xffu) + 3u) / 4u;
    var total = vec4<f32>(0.0);
    for (var k = 0u; k < count; k++) {
        let i = n * 32u + k;
{{LOADS}}
{{BODY}}
        total = total + select(vec4<f32>(0.0), u * u, vec4<i32>(i32(block & 0xffu) - i32(k * 4u)) > vec4<i32>(0, 1, 2, 3));
    }
    block_sums[params.base + n] = (total.x + total.y) + (total.z + total.w);
}
