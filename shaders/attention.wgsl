// attention: o = softmax(scale q k^T) v head by head, and lse = log(sum(exp(scale q k^T))) a position, by online softmax: no
// matrix of scores is kept. An invocation owns ROWS positions of one head and goes through the keys, KEYS at a time, that any
// of them sees. -3e38 stands for minus infinity. Twin: graph.Attention.Eval.
// GPUs run attention_tiled, but for very wide heads.
#import "shared/attention_operands.wgsl"
@bind var<storage, read_write> o: array<{{ELEMENT}}>;
@bind var<storage, read_write> lse: array<f32>;
#import "shared/attention_limits.wgsl"

const HEAD_DIM = {{HEAD_DIM}}u;
const LOWEST = -3.0e38;

#import "shared/attention_load.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_load.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_load.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_store.wgsl" FN=store_o TO=o

#import "shared/attention_main.wgsl"
{
#import "shared/attention_rows.wgsl"
    let b = index / p.heads;
    let h = index % p.heads;
    let kat = b * p.t * p.ks + p.k0 + h / p.group * p.head;
    let vat = b * p.t * p.vs + p.v0 + h / p.group * p.head;
    // Positions past the end repeat the last one and are not stored.
#for R in 0..ROWS
    let t_{{R}} = min(first + {{R}}u, p.t - 1u);
#if CAUSAL
    let sees_{{R}} = t_{{R}} + 1u;
#else
    let sees_{{R}} = p.t;
#endif
    let qat_{{R}} = (b * p.t + t_{{R}}) * p.qs + h * p.head;
#if LOCAL
    let from_{{R}} = keys_first(b, t_{{R}});
    var m_{{R}} = 0.5 * LOWEST; // above the score of a key that is not seen, should such come first
#else
    var m_{{R}} = LOWEST;
#endif
    var l_{{R}} = 0.0;
#for D in 0..QUADS
    let q_{{R}}_{{D}} = {{ROUND}}(load_q(qat_{{R}}, {{D}}u * 4u)) * p.scale;
    var o_{{R}}_{{D}} = vec4<f32>();
#end
#end
#if CAUSAL
    let end = min(first + {{ROWS}}u, p.t);
#else
    let end = p.t;
#endif
#if LOCAL
    for (var j = from_0; j < end; j += {{KEYS}}u) {
#else
    for (var j = 0u; j < end; j += {{KEYS}}u) {
#endif
#for J in 0..KEYS
        let j_{{J}} = min(j + {{J}}u, p.t - 1u);
#for R in 0..ROWS
        var s_{{R}}_{{J}} = 0.0;
#end
#for D in 0..QUADS
        {
            let kk = {{ROUND}}(load_k(kat + j_{{J}} * p.ks, {{D}}u * 4u));
#for R in 0..ROWS
            s_{{R}}_{{J}} += dot(q_{{R}}_{{D}}, kk);
#end
        }
#end
#end
#for R in 0..ROWS
        let old_{{R}} = m_{{R}};
#for J in 0..KEYS
#if CAPPED
        s_{{R}}_{{J}} = p.cap * f_tanh(s_{{R}}_{{J}} / p.cap);
#endif
#if LOCAL
        s_{{R}}_{{J}} = select(LOWEST, s_{{R}}_{{J}}, j + {{J}}u < sees_{{R}} && j + {{J}}u >= from_{{R}});
#else
        s_{{R}}_{{J}} = select(LOWEST, s_{{R}}_{{J}}, j + {{J}}u < sees_{{R}});
#endif
        m_{{R}} = max(m_{{R}}, s_{{R}}_{{J}});
#end
        let shrink_{{R}} = exp(old_{{R}} - m_{{R}});
        l_{{R}} *= shrink_{{R}};
#for J in 0..KEYS
        s_{{R}}_{{J}} = exp(s_{{R}}_{{J}} - m_{{R}});
        l_{{R}} += s_{{R}}_{{J}};
        s_{{R}}_{{J}} = {{ROUND_1}}(s_{{R}}_{{J}});
#end
#end
#for D in 0..QUADS
        {
#for J in 0..KEYS
            let v_{{J}} = {{ROUND}}(load_v(vat + j_{{J}} * p.vs, {{D}}u * 4u));
#end
#for R in 0..ROWS
            o_{{R}}_{{D}} *= shrink_{{R}};
#for J in 0..KEYS
            o_{{R}}_{{D}} += s_{{R}}_{{J}} * v_{{J}};
#end
#end
        }
#end
    }
#for R in 0..ROWS
    if (first + {{R}}u < p.t) {
        let oat = (b * p.t + t_{{R}}) * p.os + h * p.head;
        let scale = 1.0 / l_{{R}};
#for D in 0..QUADS
        store_o(oat, {{D}}u * 4u, o_{{R}}_{{D}} * scale);
#end
        lse[index * p.t + t_{{R}}] = m_{{R}} + log(l_{{R}});
    }
#end
}
