// kron_turn: how far Procrustes turns each factor, a workgroup a matrix: t = tr(R R Q), where t < 0 a <- min(a, -tr(R Q)/t), and the
// coefficients of Q + a R Q + a^2/2 R R Q, as R is not yet divided by its largest element. Twin: ProcrustesTwin.

struct Params {
    count: u32, // of matrices
    quads: u32, // of a matrix
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> rq: array<vec4<f32>>; // of the divided R
@group(0) @binding(3) var<storage, read> turns: array<vec4<f32>>; // as kron_bound.wgsl leaves them
@group(0) @binding(4) var<storage, read_write> coefficients: array<vec2<f32>>;

const lanes = {{LANES}}u;
var<workgroup> parts: array<f32, {{LANES}}>;

@compute @workgroup_size({{LANES}}, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let group = workgroup.y * workgroups.x + workgroup.x;
    let number = min(group, p.count - 1u); // those past the end go along, as there is a barrier
    let base = number * p.quads;
    var sum = vec4<f32>();
    for (var i = lane; i < p.quads; i += lanes) { sum += r[base + i] * rq[base + i]; }
    parts[lane] = (sum.x + sum.y) + (sum.z + sum.w);
    workgroupBarrier();
    if (lane == 0u && group < p.count) {
        let turn = turns[number]; // 1/max|R|, a, tr(R Q), whether there is a turn
        var curve = 0.0;
        for (var i = 0u; i < lanes; i++) { curve -= parts[i]; } // R' = -R
        curve *= turn.x;
        var a = turn.y;
        if (curve < 0.0) { a = min(a, -turn.z / curve); }
        coefficients[number] = select(vec2<f32>(), vec2<f32>(0.5 * a * a * turn.x, a), turn.w != 0.0);
    }
}
