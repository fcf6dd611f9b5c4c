// The entry point of a kernel that counts its workgroups, or its invocations, in a row: LANES invocations a workgroup, lane is the one's number in it.
#import "shared/grid.wgsl"
@compute @workgroup_size({{LANES}})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32)
