// attention_dkv_tiled: the gradients of attention for k and v on a GPU, after attention_dq_tiled has written delta. With
// P = exp(scale q k^T - lse) and dS = P * (dout v^T - delta): dv = P^T dout, dk = scale dS^T q, summed over the query heads that share the
// key head. Rows are keys, and meet the positions that see any of the workgroup's. Twin: graph.AttentionGrad.Eval.
#import "shared/attention_operands.wgsl"
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read> delta: array<f32>;
@bind var<storage, read_write> {{DK}}: array<{{ELEMENT}}>;
#if !PACKED
@bind var<storage, read_write> dv: array<{{ELEMENT}}>;
#endif
#import "shared/attention_limits.wgsl"

#import "shared/attention_tile.wgsl"

#import "shared/attention_quad.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_quad.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_quad.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_quad.wgsl" FN=load_dout FROM=dout
#import "shared/attention_quad_store.wgsl" FN=store_dk TO={{DK}}
#import "shared/attention_quad_store.wgsl" FN=store_dv TO={{DV}}

#import "shared/main.wgsl"
{
    let kvheads = p.heads / p.group;
    let b = workgroup.y / kvheads;
    let kv = workgroup.y % kvheads;
    let k0 = p.k0 + kv * p.head;
    let v0 = p.v0 + kv * p.head;
#import "shared/attention_place.wgsl"
#for I in 0..4
#for D in 0..DEPTH
    var dk_{{I}}_{{D}} = vec4<f32>();
    var dv_{{I}}_{{D}} = vec4<f32>();
#end
#end
#if LOCAL
    let end = positions_end(b, min(first + ROWS, p.t) - 1u);
#else
    let end = p.t;
#endif
    for (var g = 0u; g < p.group; g++) {
        let h = kv * p.group + g;
        let q0 = h * p.head;
        let lat = (b * p.heads + h) * p.t;
        for (var begin = positions_begin(first); begin < end; begin += OTHERS) {
        let met = min(OTHERS, end - begin);
#import "shared/attention_scores.wgsl" TO=s ROW=load_k ROW_STRIDE=p.ks ROW_AT=k0 OTHER=load_q OTHER_STRIDE=p.qs OTHER_AT=q0
        // Weights are summed up first. They wait in workgroup memory for the gradients of scores to take their place, since registers are dear; KEPT: unless
        // these have another factor than what is summed up.
#if LOCAL
#for I in 0..4
        let till_{{I}} = positions_end(b, min(row + {{I}}u, p.t - 1u));
#end
#endif
#for J in 0..COLUMNS
        {
            let position = begin + across + {{J}}u * ACROSS;
            let lse_of = lse[lat + min(position, p.t - 1u)];
            var w: vec4<f32>;
#for I in 0..4
            w[{{I}}] = weight(position, row + {{I}}u, s_{{J}}[{{I}}], lse_of);
#if LOCAL
            w[{{I}}] = select(0.0, w[{{I}}], position < till_{{I}});
#endif
#end
            weights[(across + {{J}}u * ACROSS) / 4u][across % 4u][down] = {{ROUND}}(w);
#if CAPPED
#for I in 0..4
            w[{{I}}] *= slope(s_{{J}}[{{I}}]);
#end
#endif
#if KEPT
            s_{{J}} = w;
#endif
        }
#end
#import "shared/attention_sums.wgsl" TO=dv OTHER=load_dout OTHER_STRIDE=p.os OTHER_AT=q0
#import "shared/attention_scores.wgsl" TO=e ROW=load_v ROW_STRIDE=p.vs ROW_AT=v0 OTHER=load_dout OTHER_STRIDE=p.os OTHER_AT=q0
#for J in 0..COLUMNS
        {
            let delta_of = delta[lat + min(begin + across + {{J}}u * ACROSS, p.t - 1u)];
#if !KEPT
            let s_{{J}} = weights[(across + {{J}}u * ACROSS) / 4u][across % 4u][down];
#endif
            weights[(across + {{J}}u * ACROSS) / 4u][across % 4u][down] = {{ROUND}}(s_{{J}} * (e_{{J}} - delta_of));
        }
#end
#import "shared/attention_sums.wgsl" TO=dk OTHER=load_q OTHER_STRIDE=p.qs OTHER_AT=q0
        }
    }
#for I in 0..4
    if (row + {{I}}u < p.t) {
        let at = b * p.t + row + {{I}}u;
#for D in 0..DEPTH
        store_dk(at * p.ks + k0, across + {{D}}u * ACROSS, dk_{{I}}_{{D}} * p.scale);
        store_dv(at * p.vs + v0, across + {{D}}u * ACROSS, dv_{{I}}_{{D}});
#end
    }
#end
}
