// attention_dkv: the gradients of attention for k and v, after attention_dq has written delta. With P = exp(scale q k^T - lse)
// and dS = P * (dout v^T - delta): dv = P^T dout, dk = scale dS^T q, summed over the query heads that share the key head. An
// invocation owns ROWS keys of one key head and goes through the positions that see any of them. Twin: graph.AttentionGrad.Eval.
// GPUs run attention_dkv_tiled, but for very wide heads.
#import "shared/attention_operands.wgsl"
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read> delta: array<f32>;
@bind var<storage, read_write> {{DK}}: array<{{ELEMENT}}>;
#if !PACKED
@bind var<storage, read_write> dv: array<{{ELEMENT}}>;
#endif
#import "shared/attention_limits.wgsl"

const HEAD_DIM = {{HEAD_DIM}}u;

#import "shared/attention_load.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_load.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_load.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_load.wgsl" FN=load_dout FROM=dout
#import "shared/attention_store.wgsl" FN=store_dk TO={{DK}}
#import "shared/attention_store.wgsl" FN=store_dv TO={{DV}}

#import "shared/attention_main.wgsl"
{
#import "shared/attention_rows.wgsl"
    let kvheads = p.heads / p.group;
    let b = index / kvheads;
    let kv = index % kvheads;
    // Keys past the end repeat the last one and are not stored.
#for R in 0..ROWS
    let j_{{R}} = min(first + {{R}}u, p.t - 1u);
    let kat_{{R}} = (b * p.t + j_{{R}}) * p.ks + p.k0 + kv * p.head;
    let vat_{{R}} = (b * p.t + j_{{R}}) * p.vs + p.v0 + kv * p.head;
#for D in 0..QUADS
    let k_{{R}}_{{D}} = {{ROUND}}(load_k(kat_{{R}}, {{D}}u * 4u));
    let v_{{R}}_{{D}} = {{ROUND}}(load_v(vat_{{R}}, {{D}}u * 4u));
    var dk_{{R}}_{{D}} = vec4<f32>();
    var dv_{{R}}_{{D}} = vec4<f32>();
#end
#end
#if CAUSAL
    let begin = first;
#else
    let begin = 0u;
#endif
#if LOCAL
#for R in 0..ROWS
    let till_{{R}} = positions_end(b, j_{{R}});
#end
    let end = positions_end(b, min(first + {{ROWS}}u, p.t) - 1u);
#endif
    for (var g = 0u; g < p.group; g++) {
        let h = kv * p.group + g;
        // KEYS positions at a time, since software adapters write dk and dv back to memory after each turn.
#if LOCAL
        for (var i = begin; i < end; i += {{KEYS}}u) {
#else
        for (var i = begin; i < p.t; i += {{KEYS}}u) {
#endif
#for I in 0..KEYS
            let i_{{I}} = min(i + {{I}}u, p.t - 1u);
            let row_{{I}} = (b * p.heads + h) * p.t + i_{{I}};
            let lse_{{I}} = lse[row_{{I}}];
            let delta_{{I}} = delta[row_{{I}}];
            let qat_{{I}} = (b * p.t + i_{{I}}) * p.qs + h * p.head;
            let oat_{{I}} = (b * p.t + i_{{I}}) * p.os + h * p.head;
#for R in 0..ROWS
            var s_{{R}}_{{I}} = 0.0;
            var e_{{R}}_{{I}} = 0.0;
#end
#for D in 0..QUADS
            let q_{{I}}_{{D}} = {{ROUND}}(load_q(qat_{{I}}, {{D}}u * 4u)) * p.scale;
            let g_{{I}}_{{D}} = {{ROUND}}(load_dout(oat_{{I}}, {{D}}u * 4u));
#for R in 0..ROWS
            s_{{R}}_{{I}} += dot(q_{{I}}_{{D}}, k_{{R}}_{{D}});
            e_{{R}}_{{I}} += dot(g_{{I}}_{{D}}, v_{{R}}_{{D}});
#end
#end
#for R in 0..ROWS
#if CAPPED
            let bounded_{{R}}_{{I}} = f_tanh(s_{{R}}_{{I}} / p.cap);
            s_{{R}}_{{I}} = p.cap * bounded_{{R}}_{{I}};
#endif
#if CAUSAL
#if LOCAL
            let w_{{R}}_{{I}} = select(0.0, exp(s_{{R}}_{{I}} - lse_{{I}}), i + {{I}}u < till_{{R}} && i + {{I}}u >= first + {{R}}u);
#else
            let w_{{R}}_{{I}} = select(0.0, exp(s_{{R}}_{{I}} - lse_{{I}}), i + {{I}}u < p.t && i + {{I}}u >= first + {{R}}u);
#endif
#else
            let w_{{R}}_{{I}} = select(0.0, exp(s_{{R}}_{{I}} - lse_{{I}}), i + {{I}}u < p.t);
#endif
#if CAPPED
            let ds_{{R}}_{{I}} = {{ROUND_1}}(w_{{R}}_{{I}} * (e_{{R}}_{{I}} - delta_{{I}}) * (1.0 - bounded_{{R}}_{{I}} * bounded_{{R}}_{{I}}));
#else
            let ds_{{R}}_{{I}} = {{ROUND_1}}(w_{{R}}_{{I}} * (e_{{R}}_{{I}} - delta_{{I}}));
#endif
            let p_{{R}}_{{I}} = {{ROUND_1}}(w_{{R}}_{{I}});
#end
#end
#for R in 0..ROWS
#for D in 0..QUADS
#for I in 0..KEYS
            dk_{{R}}_{{D}} += ds_{{R}}_{{I}} * q_{{I}}_{{D}};
            dv_{{R}}_{{D}} += p_{{R}}_{{I}} * g_{{I}}_{{D}};
#end
#end
#end
        }
    }
#for R in 0..ROWS
    if (first + {{R}}u < p.t) {
#for D in 0..QUADS
        store_dk(kat_{{R}}, {{D}}u * 4u, dk_{{R}}_{{D}});
        store_dv(vat_{{R}}, {{D}}u * 4u, dv_{{R}}_{{D}});
#end
    }
#end
}
