// Adds a number to the diagonals of a stack of square matrices. Twin: (*optim.orthogonalTwin).step, by a X.
#import "shared/grid.wgsl"

struct Params {
    entries: u32, // of all diagonals
    side: u32,
    a: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> stack: array<f32>;

@compute @workgroup_size({{LANES}})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let i = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (i >= params.entries) { return; }
    let matrix = i / params.side;
    let at = i * params.side + (i - matrix * params.side);
    stack[at] = stack[at] + params.a;
}
