// cross_entropy: lse = log(sum(exp(logits))) and loss = lse - logits[label] a row; 0 for the label -100. The columns may come
// in several runs, one dispatch each, which carry (maximum, sum of exponentials, logit of the label) on in `carried`. A row an
// invocation, or with GROUP a row a workgroup of LANES. -3e38 stands for minus infinity. Twin: graph.CrossEntropy.Eval.
#if ENTROPY
// entropy = log(l) - t/l, l the sum of exp(logits - m) and t that of exp(logits - m) (logits - m) for the maximum m. Twin: graph.HeadLoss.Eval.
#endif
struct Params {
    rows: u32,
    columns: u32,  // of this run
    stride: u32,   // of a row, in the unit of logits
    column0: u32,  // the first of this run
    row0: u32,     // of the chunk, in labels, lse and losses
    first: u32,    // 1: the first run
    last: u32,     // 1: the last run
#if CAPPED
    cap: f32,      // of the logits
#else
    pad: u32,
#endif
}
@bind var<uniform> p: Params;
@bind var<storage, read> logits: array<{{ELEMENT}}>;
@bind var<storage, read> labels: array<i32>;
@bind var<storage, read_write> carried: array<vec4<f32>>;
@bind var<storage, read_write> lse: array<f32>;
@bind var<storage, read_write> losses: array<f32>;
#if ENTROPY
@bind var<storage, read_write> entropies: array<f32>;
#endif

const LOWEST = -3.0e38;
#if CAPPED // logits are cap tanh(logits/cap)
#import "shared/functions.wgsl" T=vec4<f32>
#endif
#if GROUP
const STEP = {{LANES}}u;
var<workgroup> maxima: array<f32, {{LANES}}>;
var<workgroup> sums: array<f32, {{LANES}}>;
#if ENTROPY
var<workgroup> moments: array<f32, {{LANES}}>;
#endif
#else
const STEP = 1u;
#endif

fn load(row: u32, quad: u32) -> vec4<f32> {
    var v = vec4<f32>(LOWEST);
    let column = quad * 4u;
#if SCALAR
    let at = row * p.stride + column;
#for E in 0..4
    if (column + {{E}}u < p.columns) {
        v[{{E}}] = logits[at + {{E}}u];
    }
#end
#else
    v = logits[row * p.stride + quad];
#for E in 1..4
    if (column + {{E}}u >= p.columns) {
        v[{{E}}] = LOWEST;
    }
#end
#endif
#if CAPPED
    v = select(p.cap * f_tanh(v / p.cap), v, v <= vec4<f32>(LOWEST)); // but for what is past the end
#endif
    return v;
}

#import "shared/main.wgsl" LANES={{LANES}}
{
#if GROUP
    let group = workgroup.y * workgroups.x + workgroup.x;
    let row = min(group, p.rows - 1u); // past the end the last row again, not stored: barriers want uniform control flow
    let start = lane;
#else
    let row = grid_index(workgroup, workgroups, lane, 64u);
    let start = 0u;
    if (row >= p.rows) {
        return;
    }
#endif
    var m = LOWEST;
    var l = 0.0;
#if ENTROPY
    var t = 0.0;
#endif
    if (p.first == 0u && start == 0u) { // goes on from the run before
        let c = carried[p.row0 + row];
        m = c.x;
        l = c.y;
#if ENTROPY
        t = c.w;
#endif
    }
    let quads = (p.columns + 3u) / 4u;
    for (var i = start; i < quads; i += STEP) {
        let v = load(row, i);
        let n = max(max(m, max(v.x, v.y)), max(v.z, v.w));
        let e = exp(v - n);
#if ENTROPY
        let moment = e * (v - n);
        t = (t + l * (m - n)) * exp(m - n) + ((moment.x + moment.y) + (moment.z + moment.w));
#endif
        l = l * exp(m - n) + ((e.x + e.y) + (e.z + e.w));
        m = n;
    }
#if GROUP
    maxima[lane] = m;
    sums[lane] = l;
#if ENTROPY
    moments[lane] = t;
#endif
    for (var half = {{LANES}}u / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            let other = maxima[lane + half];
            let n = max(maxima[lane], other);
#if ENTROPY
            let own = (moments[lane] + sums[lane] * (maxima[lane] - n)) * exp(maxima[lane] - n);
            moments[lane] = own + (moments[lane + half] + sums[lane + half] * (other - n)) * exp(other - n);
#endif
            sums[lane] = sums[lane] * exp(maxima[lane] - n) + sums[lane + half] * exp(other - n);
            maxima[lane] = n;
        }
    }
    workgroupBarrier();
    if (lane > 0u || group >= p.rows) {
        return;
    }
    m = maxima[0];
    l = sums[0];
#if ENTROPY
    t = moments[0];
#endif
#endif
    let at = p.row0 + row;
    let label = labels[at];
    var picked = 0.0;
    if (p.first == 0u) {
        picked = carried[at].z;
    }
    let column = u32(label) - p.column0; // wraps for what lies before the run
    if (label >= 0 && column < p.columns) {
        let v = load(row, column / 4u);
        picked = v[column % 4u];
    }
    if (p.last == 0u) {
#if ENTROPY
        carried[at] = vec4<f32>(m, l, picked, t);
#else
        carried[at] = vec4<f32>(m, l, picked, 0.0);
#endif
    } else {
        let total = m + log(l);
        lse[at] = total;
        var loss = 0.0;
        if (label != -100) {
            loss = total - picked;
        }
        losses[at] = loss;
#if ENTROPY
        entropies[at] = log(l) - t / l;
#endif
    }
}
