// kron_turn: how far Procrustes turns each factor and by what, a workgroup a matrix: curve = tr(R R Q), where that is negative
// a <- min(a, -tr(R Q)/curve), and M = a R + a^2/2 R R, so that the factor becomes Q + M Q. R is not yet divided by its largest element,
// and R R once. Twin: procrustesTwin.

struct Params {
    count: u32, // of matrices
    quads: u32, // of a matrix
}

@bind var<uniform> p: Params;
@bind var<storage, read> r: array<vec4<f32>>;
@bind var<storage, read> q: array<vec4<f32>>;
@bind var<storage, read> turns: array<vec4<f32>>; // as kron_bound.wgsl leaves them
@bind var<storage, read_write> m: array<vec4<f32>>; // R R, which is symmetric; then M

const lanes = {{LANES}}u;
var<workgroup> parts: array<f32, {{LANES}}>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let group = workgroup.y * workgroups.x + workgroup.x;
    let number = min(group, p.count - 1u);
    let quads = select(0u, p.quads, group < p.count); // those past the end go along, as there is a barrier
    let base = number * p.quads;
    var sum = vec4<f32>();
    for (var i = lane; i < quads; i += lanes) { sum += m[base + i] * q[base + i]; }
    parts[lane] = (sum.x + sum.y) + (sum.z + sum.w);
    workgroupBarrier();
    let turn = turns[number]; // 1/max|R|, a, tr(R Q), whether there is a turn
    var curve = 0.0;
    for (var i = 0u; i < lanes; i++) { curve += parts[i]; }
    curve *= turn.x;
    var a = turn.y;
    if (curve < 0.0) { a = min(a, -turn.z / curve); }
    let some = turn.w != 0.0;
    let first = a * turn.x;
    let second = 0.5 * a * first;
    for (var i = lane; i < quads; i += lanes) {
        m[base + i] = select(vec4<f32>(), first * r[base + i] + second * m[base + i], some);
    }
}
