// attention_cached: o = softmax(scale q k^T) v for rows whose keys and values are in a cache, head by head. A workgroup owns HEADS heads of one row
// that read the same keys, or a part of the keys that the row sees, so that few rows occupy a device too: its invocations take the keys in turn, KEYS at a time, each
// with an online softmax of its own, which are then joined. PAGED, each looks up the block of its key. -3e38 stands for minus infinity.
// Twin: graph.CachedAttention.Eval.
#import "shared/attention_cached_bindings.wgsl"

const HEAD_DIM = {{HEAD_DIM}}u;
const LOWEST = -3.0e38;
#if CAPPED
#import "shared/functions.wgsl" T=f32
#endif

// What the upper half of the invocations that are left hand to the lower half.
var<workgroup> handed: array<vec4<f32>, {{HANDED}}>;
var<workgroup> handed_stats: array<vec2<f32>, {{WX}}>;

#import "shared/attention_load.wgsl" FN=load_q FROM=q
#import "shared/attention_load.wgsl" FN=load FROM=cache

#if !PARTS
#import "shared/attention_store.wgsl" FN=store_o TO=o
#endif

#import "shared/alternating.wgsl"

#import "shared/main.wgsl" LANES={{WX}}
{
    let h = workgroup.x * {{HEADS}}u;
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
    let qat = row * p.qs + h * p.head;
#for H in 0..HEADS
    var m_{{H}} = LOWEST;
    var l_{{H}} = 0.0;
#for D in 0..QUADS
    let q_{{H}}_{{D}} = load_q(qat + {{H}}u * p.head, {{D}}u * 4u) * p.scale;
    var o_{{H}}_{{D}} = vec4<f32>();
#end
#end
#if PAGED
    // Rows' keys come from memory, where those of one text stay in a cache. A processor waits for few of its lines at a time, so a number of each line
    // of the next keys and values is read ahead, all at once. It changes no bit of what is finite.
    var touched = 0.0;
#endif
    for (var j = begin + lane; j < end; j += {{KEYS}}u * {{WX}}u) {
#if PAGED
        let ahead = place(first, min(j + {{KEYS}}u * {{WX}}u, end - 1u)) * p.cs;
#for D in 0..LINES
        touched = max(touched, max(load(kat + ahead, {{D}}u * 16u).x, load(vat + ahead, {{D}}u * 16u).x));
#end
#endif
#for J in 0..KEYS
#if PAGED
        let j_{{J}} = place(first, min(j + {{J}}u * {{WX}}u, end - 1u));
#else
        let j_{{J}} = min(j + {{J}}u * {{WX}}u, end - 1u);
#endif
#for H in 0..HEADS
        var s_{{J}}_{{H}} = 0.0;
#end
#for D in 0..QUADS
        let k_{{J}}_{{D}} = load(kat + j_{{J}} * p.cs, {{D}}u * 4u);
#for H in 0..HEADS
        s_{{J}}_{{H}} += dot(q_{{H}}_{{D}}, k_{{J}}_{{D}});
#end
#end
#end
#for H in 0..HEADS
        let old_{{H}} = m_{{H}};
#for J in 0..KEYS
#if CAPPED
        s_{{J}}_{{H}} = p.cap * f_tanh(s_{{J}}_{{H}} / p.cap);
#endif
        s_{{J}}_{{H}} = select(LOWEST, s_{{J}}_{{H}}, j + {{J}}u * {{WX}}u < end);
        m_{{H}} = max(m_{{H}}, s_{{J}}_{{H}});
#end
        let shrink_{{H}} = exp(old_{{H}} - m_{{H}});
        l_{{H}} *= shrink_{{H}};
#for J in 0..KEYS
        s_{{J}}_{{H}} = exp(s_{{J}}_{{H}} - m_{{H}});
        l_{{H}} += s_{{J}}_{{H}};
#end
#end
#for D in 0..QUADS
#for H in 0..HEADS
        o_{{H}}_{{D}} *= shrink_{{H}};
#end
#for J in 0..KEYS
        let v_{{J}}_{{D}} = load(vat + j_{{J}} * p.cs, {{D}}u * 4u);
#for H in 0..HEADS
        o_{{H}}_{{D}} += s_{{J}}_{{H}} * v_{{J}}_{{D}};
#end
#end
#end
    }
#if PAGED
    if (touched > 3.4e38) {
#for H in 0..HEADS
        l_{{H}} = touched - touched;
#end
    }
#endif
#for H in 0..HEADS
    for (var left = {{WX}}u / 2u; left > 0u; left /= 2u) {
        if (lane >= left && lane < 2u * left) {
            handed_stats[lane - left] = vec2<f32>(m_{{H}}, l_{{H}});
#for D in 0..QUADS
            handed[(lane - left) * {{QUADS}}u + {{D}}u] = o_{{H}}_{{D}};
#end
        }
        workgroupBarrier();
        if (lane < left) {
            let other = handed_stats[lane];
            let most = max(m_{{H}}, other.x);
            let mine = exp(m_{{H}} - most);
            let theirs = exp(other.x - most);
            m_{{H}} = most;
            l_{{H}} = mine * l_{{H}} + theirs * other.y;
#for D in 0..QUADS
            o_{{H}}_{{D}} = mine * o_{{H}}_{{D}} + theirs * handed[lane * {{QUADS}}u + {{D}}u];
#end
        }
        workgroupBarrier();
    }
    if (lane == 0u) {
#if PARTS
        let at = (row * p.heads + h + {{H}}u) * {{PARTS_COUNT}}u + workgroup.z;
        stats[at] = vec2<f32>(m_{{H}}, l_{{H}});
#for D in 0..QUADS
        sums[at * {{QUADS}}u + {{D}}u] = o_{{H}}_{{D}};
#end
#else
        let oat = row * p.os + (h + {{H}}u) * p.head;
        let scale = 1.0 / max(l_{{H}}, 1.0e-30); // of an idle token 0
#for D in 0..QUADS
        store_o(oat, {{D}}u * 4u, o_{{H}}_{{D}} * scale);
#end
#endif
    }
#end
}
