// Counts the finite elements of a leaf in 64 equal bins over the range that range.wgsl chose; what lies outside is counted
// in the first and the last. Scaling by a power of two is exact. Twin: tally in tally_test.go.
struct Params {
    first: u32, // of the group in counts
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> data: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>;

const LANES = 64u;
const ITEMS = 4096u;

var<workgroup> near: array<atomic<u32>, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    atomicStore(&near[lane], 0u);
    workgroupBarrier();
    let scale = bitcast<f32>((253u - atomicLoad(&counts[params.first + {{RANGE}}u])) << 23u);
    let begin = (workgroup.y * workgroups.x + workgroup.x) * ITEMS;
    for (var i = begin + lane; i < min(begin + ITEMS, params.count); i += LANES) {
        let bits = data[i];
        if ((bits & 0x7f800000u) != 0x7f800000u) {
            let place = clamp(floor(bitcast<f32>(bits) * scale * 32.0), -32.0, 31.0);
            atomicAdd(&near[u32(i32(place) + 32)], 1u);
        }
    }
    workgroupBarrier();
    let n = atomicLoad(&near[lane]);
    if (n > 0u) {
        atomicAdd(&counts[params.first + {{BINS}}u + lane], n);
    }
}
