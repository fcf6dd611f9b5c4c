// Sums of squares of the gradients of matrices with one diagonal side, one a workgroup. Twin: rootMeanSquare in kron/twin_matrix.go.
#import "shared/grid.wgsl"
#import "shared/kron_rms.wgsl"
#import "shared/kron_strip.wgsl"

struct Params {
    shares: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> shares: array<Share>;
@group(0) @binding(2) var<storage, read> patches: array<Patch>;
@group(0) @binding(3) var<storage, read> updates: array<f32>;
@group(0) @binding(4) var<storage, read_write> squares: array<vec4<f32>>;

var<workgroup> sums: array<vec4<f32>, 64>;

@compute @workgroup_size(64, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    var sum = vec4<f32>();
    if (index < params.shares) {
        let share = shares[index];
        let p = patches[share.patch_];
        let across = (p.fill + 3u) / 4u - p.begin / 4u;
        for (var i = share.first + lane; i < min(share.first + share_fours, across * p.rows); i += 64u) {
            let row = i / across;
            let first = 4u * (p.begin / 4u + i % across);
            for (var c = max(first, p.begin); c < min(first + 4u, p.end) && row < p.longs; c++) {
                sum = rms_join(sum, rms_of(updates[p.place + row * p.long + c * p.dense]));
            }
        }
    }
    sums[lane] = sum;
    workgroupBarrier(); // one, and lane 0 adds up: on software adapters a barrier costs as much as hundreds of loads
    if (lane == 0u && index < params.shares) {
        var total = vec4<f32>();
        for (var k = 0u; k < 64u; k++) { total = rms_join(total, sums[k]); }
        squares[shares[index].sum] = total;
    }
}
