// divergence: what a student's logits z are apart from a teacher's u, a row, over a run of the columns. Runs carry sums on. With s and t for the logarithms of
// softmax(z / temperature) and softmax(u / temperature), capped as their networks cap them:
//
// STATISTICS: rows = (lse of z / temperature, lse of u / temperature, the logarithm of the share of what is not listed), figures = (-log p of the label at
// temperature 1, its s and t).
// Else losses = the divergence of graph.HeadDivergence, and rows[2] = sum s' h, rows[3] = what stands for h in the columns that are not listed.
//
// LISTED: u is t itself, and LOWEST where it is not listed. A row an invocation, or with GROUP a row a workgroup. Twin: graph.HeadDivergence.Eval.
struct Params {
    rows: u32,
    columns: u32,   // of this run
    stride: u32,    // of a row of logits
    at: u32,        // where the run begins in a row of logits
    teacher_stride: u32,
    teacher_at: u32,
    column0: u32,   // the first column of this run
    row0: u32,      // of the chunk, in labels, rows, losses and figures
    first: u32,     // 1: the first run
    last: u32,      // 1: the last run
    beta: f32,
    inverse: f32,   // 1 / temperature
    cap: f32,       // of the student's logits; 0: none
    teacher_cap: f32,
    pad0: u32, pad1: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> logits: array<f32>;
@bind var<storage, read> teacher: array<f32>;
@bind var<storage, read> labels: array<i32>;
@bind var<storage, read_write> carried: array<vec4<f32>>;
@bind var<storage, read_write> rows: array<f32>;
#if STATISTICS
@bind var<storage, read_write> figures: array<f32>;
#else
@bind var<storage, read_write> losses: array<f32>;
#if LISTED
@bind var<storage, read> rest: array<f32>;
#endif
#endif

#import "shared/functions.wgsl" T=f32
#import "shared/divergence.wgsl"
#if GROUP
const STEP = {{LANES}}u;
var<workgroup> a: array<vec4<f32>, {{LANES}}>;
var<workgroup> b: array<vec4<f32>, {{LANES}}>;
#else
const STEP = 1u;
#endif

#if STATISTICS
// One more column. What is there is scaled only where the maximum grows: exp of 0 need not be 1 exactly.
fn and_one(x: vec4<f32>, z: f32, outside: f32) -> vec4<f32> {
    if (z > x.x) {
        let d = x.x - z;
        let f = exp(d * p.inverse);
        return vec4<f32>(z, x.y * exp(d) + 1.0, x.z * f + 1.0, x.w * f + outside);
    }
    let f = exp((z - x.x) * p.inverse);
    return vec4<f32>(x.x, x.y + exp(z - x.x), x.z + f, x.w + outside * f);
}

// (maximum, sum of exp(z - maximum), of exp((z - maximum) / temperature), of the latter what is not listed), of two sets of columns.
fn joined(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let m = max(x.x, y.x);
    let d = vec2<f32>(x.x - m, y.x - m);
    let e = exp(d);
    let f = exp(d * p.inverse);
    return vec4<f32>(m, x.y * e.x + y.y * e.y, x.z * f.x + y.z * f.y, x.w * f.x + y.w * f.y);
}
#endif

#import "shared/main.wgsl" LANES={{LANES}}
{
#if GROUP
    let group = workgroup.y * workgroups.x + workgroup.x;
    let row = min(group, p.rows - 1u); // past the end the last row again, not stored
    let start = lane;
#else
    let row = grid_index(workgroup, workgroups, lane, 64u);
    let start = 0u;
    if (row >= p.rows) {
        return;
    }
#endif
    let at = p.row0 + row;
    let own = row * p.stride + p.at;
    let other = row * p.teacher_stride + p.teacher_at;
#if STATISTICS
    var s = vec4<f32>(LOWEST, 0.0, 0.0, 0.0);
    var t = s;
    for (var i = start; i < p.columns; i += STEP) {
        let z = capped(logits[own + i], p.cap);
#if LISTED
        let outside = select(0.0, 1.0, teacher[other + i] <= LOWEST);
#else
        let outside = 0.0;
        t = and_one(t, capped(teacher[other + i], p.teacher_cap), 0.0);
#endif
        s = and_one(s, z, outside);
    }
#if GROUP
    a[lane] = s;
    b[lane] = t;
    for (var half = {{LANES}}u / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            a[lane] = joined(a[lane], a[lane + half]);
            b[lane] = joined(b[lane], b[lane + half]);
        }
    }
    workgroupBarrier();
    if (lane > 0u || group >= p.rows) {
        return;
    }
    s = a[0];
    t = b[0];
#endif
    var picked = vec4<f32>(0.0);
    if (p.first == 0u) {
        s = joined(carried[3u * at], s);
        t = joined(carried[3u * at + 1u], t);
        picked = carried[3u * at + 2u];
    }
    let label = labels[at];
    let column = u32(label) - p.column0; // wraps for what lies before the run
    if (label >= 0 && column < p.columns) {
        picked = vec4<f32>(capped(logits[own + column], p.cap), 0.0, 0.0, 0.0);
#if !LISTED
        picked.y = capped(teacher[other + column], p.teacher_cap);
#endif
    }
    if (p.last == 0u) {
        carried[3u * at] = s;
        carried[3u * at + 1u] = t;
        carried[3u * at + 2u] = picked;
        return;
    }
    let lse = s.x * p.inverse + log(s.z);
    var lse_teacher = 0.0;
#if !LISTED
    lse_teacher = t.x * p.inverse + log(t.z);
#endif
    rows[4u * at] = lse;
    rows[4u * at + 1u] = lse_teacher;
    rows[4u * at + 2u] = log(max(s.w, 1.0e-37)) - log(s.z);
    rows[4u * at + 3u] = 0.0;
    var told = vec3<f32>(0.0);
    if (label != -100) {
        told = vec3<f32>(s.x + log(s.y) - picked.x, picked.x * p.inverse - lse, picked.y * p.inverse - lse_teacher);
    }
#for E in 0..3
    figures[3u * at + {{E}}u] = told[{{E}}];
#end
#else
    let lse = vec2<f32>(rows[4u * at], rows[4u * at + 1u]);
    var sum = vec2<f32>(0.0); // the divergence, and sum s' h
    for (var i = start; i < p.columns; i += STEP) {
        let u = teacher[other + i];
#if LISTED
        if (u <= LOWEST) {
            continue;
        }
        let t = u;
#else
        let t = capped(u, p.teacher_cap) * p.inverse - lse.y;
#endif
        sum += apart(capped(logits[own + i], p.cap) * p.inverse - lse.x, t).xy;
    }
#if GROUP
    a[lane] = vec4<f32>(sum, 0.0, 0.0);
    for (var half = {{LANES}}u / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            a[lane] += a[lane + half];
        }
    }
    workgroupBarrier();
    if (lane > 0u || group >= p.rows) {
        return;
    }
    sum = a[0].xy;
#endif
    if (p.first == 0u) {
        sum += carried[3u * at].xy;
    }
    if (p.last == 0u) {
        carried[3u * at] = vec4<f32>(sum, 0.0, 0.0);
        return;
    }
    var outside = 0.0;
#if LISTED
    let others = apart(rows[4u * at + 2u], rest[at]);
    sum += others.xy;
    outside = others.z;
#endif
    rows[4u * at + 2u] = sum.y;
    rows[4u * at + 3u] = outside;
    losses[at] = select(sum.x, 0.0, labels[at] == -100);
#endif
}
