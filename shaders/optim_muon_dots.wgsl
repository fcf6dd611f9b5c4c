// Partial sums of the products of all elements of two matrices, for each pair of two stacks. Twin: (*optim.orthogonalTwin).step.
struct Params {
    vecs: u32,   // of a matrix, four elements each
    groups: u32, // workgroups a matrix
    total: u32,  // workgroups
    base: u32,   // of theirs in partial
}

@bind var<uniform> params: Params;
@bind var<storage, read> a: array<vec4<f32>>;
@bind var<storage, read> b: array<vec4<f32>>;
@bind var<storage, read_write> partial: array<f32>; // one an invocation

#import "shared/main.wgsl" LANES={{LANES}}
{
    let group = workgroup.y * workgroups.x + workgroup.x;
    if (group >= params.total) { return; }
    let matrix = group / params.groups;
    let first = (group - matrix * params.groups) * {{STEPS}}u * {{LANES}}u + lane;
    var sum = vec4<f32>(0.0);
    for (var step = 0u; step < {{STEPS}}u; step++) {
        let i = first + step * {{LANES}}u;
        if (i < params.vecs) { sum += a[matrix * params.vecs + i] * b[matrix * params.vecs + i]; }
    }
    partial[(params.base + group) * {{LANES}}u + lane] = (sum.x + sum.y) + (sum.z + sum.w);
}
