// grid_index is the linear index of an invocation in a grid folded to X*Y (gpu.Linear), with `size` invocations a
// workgroup. Invocations past the last item exist: guard with `if`.
fn grid_index(workgroup: vec3<u32>, workgroups: vec3<u32>, local: u32, size: u32) -> u32 {
    return (workgroup.y * workgroups.x + workgroup.x) * size + local;
}
