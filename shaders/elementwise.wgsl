// result[i] = value(i), or result[i] += value(i): one fused expression of elementwise operations and moves.
// Twin: the Eval of each operation in package graph, whose compiler writes BINDINGS and BODY.

{{BINDINGS}}
@group(0) @binding({{RESULT}}) var<storage, read_write> result: array<{{T}}>;

#import "shared/grid.wgsl"
#import "shared/functions.wgsl"
#if DROPOUT
#import "shared/dropout.wgsl"
#endif

fn value(i: u32) -> {{T}} {
{{BODY}}
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let i = grid_index(workgroup, workgroups, local, 64u);
    if (i < {{COUNT}}u) {
#if ACCUMULATE
        result[i + {{START}}u] += value(i);
#else
        result[i + {{START}}u] = value(i);
#endif
    }
}
