// Counts the elements of a leaf by their exponent: counts[group][e] for the 256 exponents of f32. Integers, so that the
// order of the additions does not matter. Twin: tally in tally_test.go.
struct Params {
    first: u32, // of the group in counts
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>;

const LANES = 64u;
const ITEMS = 4096u;

var<workgroup> near: array<atomic<u32>, 256>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    for (var k = lane; k < 256u; k += LANES) {
        atomicStore(&near[k], 0u);
    }
    workgroupBarrier();
    let begin = (workgroup.y * workgroups.x + workgroup.x) * ITEMS;
    for (var i = begin + lane; i < min(begin + ITEMS, params.count); i += LANES) {
        atomicAdd(&near[(data[i] >> 23u) & 255u], 1u);
    }
    workgroupBarrier();
    for (var k = lane; k < 256u; k += LANES) {
        let n = atomicLoad(&near[k]);
        if (n > 0u) {
            atomicAdd(&counts[params.first + k], n);
        }
    }
}
