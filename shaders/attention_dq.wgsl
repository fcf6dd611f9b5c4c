// attention_dq: the gradient of attention for q. With P = exp(scale q k^T - lse), dP = dout v^T and delta = rowsum(dout * o):
// dS = P * (dP - delta), dq = scale dS k. Writes delta for attention_dkv. An invocation owns ROWS positions of one head and
// goes through the keys that any of them sees. Twin: graph.AttentionGrad.Eval.
// GPUs run attention_dq_tiled, but for very wide heads.
#import "shared/attention_operands.wgsl"
@bind var<storage, read> o: array<{{ELEMENT}}>;
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read_write> {{DQ}}: array<{{ELEMENT}}>;
@bind var<storage, read_write> delta: array<f32>;
#import "shared/attention_limits.wgsl"

const HEAD_DIM = {{HEAD_DIM}}u;

#import "shared/attention_load.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_load.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_load.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_load.wgsl" FN=load_o FROM=o
#import "shared/attention_load.wgsl" FN=load_dout FROM=dout
#import "shared/attention_store.wgsl" FN=store_dq TO={{DQ}}

#import "shared/attention_main.wgsl"
{
#import "shared/attention_rows.wgsl"
    let b = index / p.heads;
    let h = index % p.heads;
    let kat = b * p.t * p.ks + p.k0 + h / p.group * p.head;
    let vat = b * p.t * p.vs + p.v0 + h / p.group * p.head;
#for R in 0..ROWS
    let t_{{R}} = min(first + {{R}}u, p.t - 1u);
#if CAUSAL
    let sees_{{R}} = t_{{R}} + 1u;
#else
    let sees_{{R}} = p.t;
#endif
    let qat_{{R}} = (b * p.t + t_{{R}}) * p.qs + h * p.head;
    let oat_{{R}} = (b * p.t + t_{{R}}) * p.os + h * p.head;
#if LOCAL
    let from_{{R}} = keys_first(b, t_{{R}});
#endif
    let lse_{{R}} = lse[index * p.t + t_{{R}}];
    var delta_{{R}} = 0.0;
#for D in 0..QUADS
    let q_{{R}}_{{D}} = {{ROUND}}(load_q(qat_{{R}}, {{D}}u * 4u)) * p.scale;
    let g_{{R}}_{{D}} = {{ROUND}}(load_dout(oat_{{R}}, {{D}}u * 4u));
    delta_{{R}} += dot(g_{{R}}_{{D}}, load_o(oat_{{R}}, {{D}}u * 4u));
    var dq_{{R}}_{{D}} = vec4<f32>();
#end
#end
#if CAUSAL
    let end = min(first + {{ROWS}}u, p.t);
#else
    let end = p.t;
#endif
    // KEYS at a time, since software adapters write dq back to memory after each turn.
#if LOCAL
    for (var j = from_0; j < end; j += {{KEYS}}u) {
#else
    for (var j = 0u; j < end; j += {{KEYS}}u) {
#endif
#for J in 0..KEYS
        let j_{{J}} = min(j + {{J}}u, p.t - 1u);
#for R in 0..ROWS
        var s_{{R}}_{{J}} = 0.0;
        var e_{{R}}_{{J}} = 0.0;
#end
#for D in 0..QUADS
        let k_{{J}}_{{D}} = {{ROUND}}(load_k(kat + j_{{J}} * p.ks, {{D}}u * 4u));
        let v_{{J}}_{{D}} = {{ROUND}}(load_v(vat + j_{{J}} * p.vs, {{D}}u * 4u));
#for R in 0..ROWS
        s_{{R}}_{{J}} += dot(q_{{R}}_{{D}}, k_{{J}}_{{D}});
        e_{{R}}_{{J}} += dot(g_{{R}}_{{D}}, v_{{J}}_{{D}});
#end
#end
#for R in 0..ROWS
#if CAPPED
        let bounded_{{R}}_{{J}} = f_tanh(s_{{R}}_{{J}} / p.cap);
        s_{{R}}_{{J}} = p.cap * bounded_{{R}}_{{J}};
#endif
#if LOCAL
        let w_{{R}}_{{J}} = select(0.0, exp(s_{{R}}_{{J}} - lse_{{R}}), j + {{J}}u < sees_{{R}} && j + {{J}}u >= from_{{R}});
#else
        let w_{{R}}_{{J}} = select(0.0, exp(s_{{R}}_{{J}} - lse_{{R}}), j + {{J}}u < sees_{{R}});
#endif
#if CAPPED
#if F16
        let ds_{{R}}_{{J}} = half1(w_{{R}}_{{J}} * (e_{{R}}_{{J}} - delta_{{R}}) * (1.0 - bounded_{{R}}_{{J}} * bounded_{{R}}_{{J}})) * p.scale;
#else
        let ds_{{R}}_{{J}} = w_{{R}}_{{J}} * (e_{{R}}_{{J}} - delta_{{R}}) * p.scale * (1.0 - bounded_{{R}}_{{J}} * bounded_{{R}}_{{J}});
#endif
#else
        let ds_{{R}}_{{J}} = {{ROUND_1}}(w_{{R}}_{{J}} * (e_{{R}}_{{J}} - delta_{{R}})) * p.scale;
#endif
#end
#end
#for R in 0..ROWS
#for D in 0..QUADS
#for J in 0..KEYS
        dq_{{R}}_{{D}} += ds_{{R}}_{{J}} * k_{{J}}_{{D}};
#end
#end
#end
    }
#for R in 0..ROWS
    if (first + {{R}}u < p.t) {
#for D in 0..QUADS
        store_dq(qat_{{R}}, {{D}}u * 4u, dq_{{R}}_{{D}});
#end
        delta[index * p.t + t_{{R}}] = delta_{{R}};
    }
#end
}
