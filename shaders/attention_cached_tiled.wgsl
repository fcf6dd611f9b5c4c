// attention_cached_tiled: attention_cached for GPUs. A workgroup takes the keys of one head of one row, or of a part of them, 64 at a time: first an
// invocation a key, for the scores, then a few quads of the head an invocation, for the sum of the values. So no invocation holds a whole head, and
// neighbours read a row of values side by side. The softmax is online: m is the largest score so far, and sums are of exp(score - m).
// PAGED, the block of a key is looked up once, and where it lies is kept for its value. Params and parts as in attention_cached. -3e38 stands for
// minus infinity. Twin: graph.CachedAttention.Eval.
#import "shared/attention_cached_bindings.wgsl"

const HEAD_DIM = {{HEAD_DIM}}u;
const QUADS = {{QUADS}}u;
const LANES = {{LANES}}u; // invocations that share a head's quads, {{OWN}} each
const TEAMS = {{TEAMS}}u; // of them; team i takes keys i, i + TEAMS, ...
const LOWEST = -3.0e38;
#if CAPPED
#import "shared/functions.wgsl" T=f32
#endif

var<workgroup> query: array<vec4<f32>, {{QUADS}}>;
var<workgroup> scores: array<f32, 64>;
var<workgroup> shares: array<f32, 64>; // exp(score - m)
var<workgroup> handed: array<vec4<f32>, {{HANDED}}>; // each team's sums
#if PAGED
var<workgroup> lines: array<u32, 64>; // where the keys are
#endif

#import "shared/attention_load.wgsl" FN=load_q FROM=q
#import "shared/attention_load.wgsl" FN=load FROM=cache

#if !PARTS
#import "shared/attention_store.wgsl" FN=store_o TO=o
#endif

#import "shared/alternating.wgsl"

#import "shared/main.wgsl" LANES=64
{
    let h = workgroup.x;
    let row = alternating(workgroup.y, workgroups.y); // later rows see more
#if PAGED
    let first = u32(max(rows[row], 0)) * p.window;
    let sees = select(0u, u32(positions[row]) + 1u, rows[row] >= 0);
#else
    let sees = u32(positions[row]) + 1u;
#endif
#if LIMITED
    let begin = sees - min(sees, p.local) + workgroup.z * p.part;
#else
    let begin = workgroup.z * p.part;
#endif
    let end = min(begin + p.part, sees);
#if PAGED
    let kat = h / p.group * p.head;
#else
    let kat = row / p.t * p.window * p.cs + h / p.group * p.head;
#endif
    let vat = kat + p.v0;
    let team = lane / LANES;
    let quad = lane % LANES * {{OWN}}u;
    for (var d = lane; d < QUADS; d += 64u) {
        query[d] = load_q(row * p.qs + h * p.head, d * 4u) * p.scale;
    }
    workgroupBarrier();
    var m = LOWEST;
    var l = 0.0; // of the keys that this invocation has scored
#for I in 0..OWN
    var o_{{I}} = vec4<f32>();
#end
    for (var j = begin; j < end; j += 64u) {
#if PAGED
        let kline = kat + place(first, min(j + lane, end - 1u)) * p.cs;
#else
        let kline = kat + min(j + lane, end - 1u) * p.cs;
#endif
        var products = vec4<f32>();
        // The bound is no constant: unrolled, all loads of a wide head come first, and Adreno's registers do not hold them.
        for (var d = 0u; d < min(QUADS - QUADS % 4u, p.head); d += 4u) {
#for D in 0..4
            let k_{{D}} = load(kline, (d + {{D}}u) * 4u);
#end
#for D in 0..4
            products += query[d + {{D}}u] * k_{{D}};
#end
        }
        for (var d = QUADS - QUADS % 4u; d < QUADS; d++) {
            products += query[d] * load(kline, d * 4u);
        }
        var score = (products.x + products.y) + (products.z + products.w);
#if CAPPED
        score = p.cap * f_tanh(score / p.cap);
#endif
        score = select(LOWEST, score, j + lane < end);
        scores[lane] = score;
        workgroupBarrier();
        let old = m;
        for (var i = 0u; i < 64u; i += 4u) {
            m = max(m, max(max(scores[i], scores[i + 1u]), max(scores[i + 2u], scores[i + 3u])));
        }
        let shrink = exp(old - m);
        let share = select(0.0, exp(score - m), j + lane < end);
        l = l * shrink + share;
        shares[lane] = share;
#if PAGED
        lines[lane] = kline;
#endif
        workgroupBarrier();
#for I in 0..OWN
        o_{{I}} *= shrink;
#end
        if (team < TEAMS) {
            for (var i = team; i < 64u; i += 4u * TEAMS) {
#for J in 0..4
#if PAGED
                let vline_{{J}} = lines[min(i + {{J}}u * TEAMS, 63u)] + p.v0;
#else
                let vline_{{J}} = vat + min(j + i + {{J}}u * TEAMS, end - 1u) * p.cs;
#endif
#for I in 0..OWN
                let v_{{J}}_{{I}} = load(vline_{{J}}, min(quad + {{I}}u, QUADS - 1u) * 4u);
#end
#end
#for J in 0..4
                let share_{{J}} = select(0.0, shares[min(i + {{J}}u * TEAMS, 63u)], i + {{J}}u * TEAMS < 64u);
#for I in 0..OWN
                o_{{I}} += share_{{J}} * v_{{J}}_{{I}};
#end
#end
            }
        }
    }
    shares[lane] = l; // of all keys
    if (team < TEAMS) {
#for I in 0..OWN
        if (quad + {{I}}u < QUADS) {
            handed[team * QUADS + quad + {{I}}u] = o_{{I}};
        }
#end
    }
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < 64u; i += 4u) {
        total += (shares[i] + shares[i + 1u]) + (shares[i + 2u] + shares[i + 3u]);
    }
#if PARTS
    let at = (row * p.heads + h) * {{PARTS_COUNT}}u + workgroup.z;
    if (lane == 0u) {
        stats[at] = vec2<f32>(m, total);
    }
#endif
    for (var d = lane; d < QUADS; d += 64u) {
        var sum = handed[d];
        for (var i = 1u; i < TEAMS; i++) {
            sum += handed[i * QUADS + d];
        }
#if PARTS
        sums[at * QUADS + d] = sum;
#else
        store_o(row * p.os + h * p.head, d * 4u, sum * (1.0 / max(total, 1.0e-30))); // of an idle token 0
#endif
    }
}
