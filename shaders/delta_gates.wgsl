// delta_gates: the gradients of g and beta, as they lie in work, in their own places. An invocation has a token of a head. Twin: graph.GatedDeltaGrad.Eval.
#import "shared/delta.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> work: array<vec4<f32>>;
@bind var<storage, read_write> dg: array<f32>;
@bind var<storage, read_write> dbeta: array<f32>;

#import "shared/grid.wgsl"
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < arrayLength(&dg)) {
        let t = i / p.heads % p.t;
        let base = ((i / p.heads / p.t * p.heads + i % p.heads) * p.chunks + t / C) * STRIDE;
        dg[i] = number(base + DG, t % C);
        dbeta[i] = number(base + DBETA, t % C);
    }
}
