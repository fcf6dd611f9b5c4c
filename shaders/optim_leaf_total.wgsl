// The blocks of optim_leaf_sum put together, one workgroup a leaf. Twin: (*optim.Twin).measure.
#import "shared/grid.wgsl"

struct Params {
    leaves: u32,
    sum: u32, // which of the sums of leaf_sums
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> runs: array<vec2<u32>>; // a leaf: first and number of its runs; a run: first block and number
@group(0) @binding(2) var<storage, read> block_sums: array<f32>;
@group(0) @binding(3) var<storage, read_write> leaf_sums: array<f32>;

var<workgroup> sums: array<f32, {{LANES}}>;

@compute @workgroup_size({{LANES}})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let leaf = workgroup.y * workgroups.x + workgroup.x;
    var total = 0.0;
    if (leaf < params.leaves) {
        let mine = runs[leaf];
        for (var r = mine.x; r < mine.x + mine.y; r++) {
            let run = runs[r];
            for (var b = lane; b < run.y; b = b + {{LANES}}u) {
                total = total + block_sums[run.x + b];
            }
        }
    }
    sums[lane] = total;
    workgroupBarrier();
    if (lane == 0u && leaf < params.leaves) {
        var sum = 0.0;
        for (var k = 0u; k < {{LANES}}u; k++) {
            sum = sum + sums[k];
        }
        leaf_sums[params.sum * params.leaves + leaf] = sum;
    }
}
