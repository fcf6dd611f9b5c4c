// cross_entropy: lse = log(sum(exp(logits))) and loss = lse - logits[label] a row; 0 for the label -100. The columns may come
// in several runs, one dispatch each, which carry (maximum, sum of exponentials, logit of the label) on in `carried`. A row an
// invocation, or with GROUP a row a workgroup of LANES. -3e38 stands for minus infinity. Twin: graph.CrossEntropy.Eval.
//
// With OPTIONS loss = (1-e) (lse - logits[label]) + e (lse - mean logits) + k lse^2, figures are (lse - logits[label], lse^2, whether the first of the greatest
// logits is the label's), and runs carry the sum of the logits and the place of the greatest on, too: two vec4s a row. Twin: graph.HeadLoss.Eval.
//
// With ENTROPY entropy = log(l) - t/l, l the sum of exp(logits - m) and t that of exp(logits - m) (logits - m) for the maximum m; never with OPTIONS.
struct Params {
    rows: u32,
    columns: u32,  // of this run
    stride: u32,   // of a row, in the unit of logits
    column0: u32,  // the first of this run
    row0: u32,     // of the chunk, in labels, lse and losses
    first: u32,    // 1: the first run
    last: u32,     // 1: the last run
#if OPTIONS
    cap: f32,
    smoothing: f32, // e
    inverse: f32,   // 1 / all columns
    z_loss: f32,    // k
    pad: u32,
#else
#if CAPPED
    cap: f32,      // of the logits
#else
    pad: u32,
#endif
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
#if OPTIONS
@bind var<storage, read_write> figures: array<f32>;
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
#if OPTIONS
var<workgroup> totals: array<f32, {{LANES}}>;
var<workgroup> places: array<u32, {{LANES}}>;
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
#if OPTIONS
    var all = 0.0;
    var place = 0u; // of m among all columns
    let lanes = vec4<u32>(0u, 1u, 2u, 3u);
#endif
    if (p.first == 0u && start == 0u) { // goes on from the run before
#if OPTIONS
        let c = carried[2u * (p.row0 + row)];
        let more = carried[2u * (p.row0 + row) + 1u];
        all = more.x;
        place = bitcast<u32>(more.y);
#else
        let c = carried[p.row0 + row];
#endif
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
#if OPTIONS
        let kept = select(vec4<f32>(0.0), v, vec4<u32>(4u * i) + lanes < vec4<u32>(p.columns));
        all += (kept.x + kept.y) + (kept.z + kept.w);
        if (n > m) {
            place = p.column0 + 4u * i + select(select(select(3u, 2u, v.z == n), 1u, v.y == n), 0u, v.x == n);
        }
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
#if OPTIONS
    totals[lane] = all;
    places[lane] = place;
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
#if OPTIONS
            totals[lane] += totals[lane + half];
            if (other > maxima[lane] || (other == maxima[lane] && places[lane + half] < places[lane])) {
                places[lane] = places[lane + half];
            }
#endif
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
#if OPTIONS
    all = totals[0];
    place = places[0];
#endif
#endif
    let at = p.row0 + row;
    let label = labels[at];
    var picked = 0.0;
    if (p.first == 0u) {
#if OPTIONS
        picked = carried[2u * at].z;
#else
        picked = carried[at].z;
#endif
    }
    let column = u32(label) - p.column0; // wraps for what lies before the run
    if (label >= 0 && column < p.columns) {
        let v = load(row, column / 4u);
        picked = v[column % 4u];
    }
    if (p.last == 0u) {
#if OPTIONS
        carried[2u * at] = vec4<f32>(m, l, picked, 0.0);
        carried[2u * at + 1u] = vec4<f32>(all, bitcast<f32>(place), 0.0, 0.0);
#else
#if ENTROPY
        carried[at] = vec4<f32>(m, l, picked, t);
#else
        carried[at] = vec4<f32>(m, l, picked, 0.0);
#endif
#endif
    } else {
        let total = m + log(l);
        lse[at] = total;
        var loss = 0.0;
#if OPTIONS
        var told = vec3<f32>(0.0);
        if (label != -100) {
            told = vec3<f32>(total - picked, total * total, select(0.0, 1.0, place == u32(label)));
            loss = (1.0 - p.smoothing) * told.x + p.smoothing * (total - p.inverse * all) + p.z_loss * told.y;
        }
#for E in 0..3
        figures[3u * at + {{E}}u] = told[{{E}}];
#end
#else
        if (label != -100) {
            loss = total - picked;
        }
#endif
        losses[at] = loss;
#if ENTROPY
        entropies[at] = log(l) - t / l;
#endif
    }
}
