// attention_dq_tiled: the gradient of attention for q on a GPU, and what attention_dkv_tiled needs of each position. With
// P = exp(scale q k^T - lse): delta = sum(dout o), dS = P * (dout v^T - delta), dq = scale dS k. Rows are positions, and meet the
// keys that any of the workgroup sees. Twin: graph.AttentionGrad.Eval.
#import "shared/attention_operands.wgsl"
@bind var<storage, read> o: array<{{ELEMENT}}>;
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read_write> {{DQ}}: array<{{ELEMENT}}>;
@bind var<storage, read_write> delta: array<f32>;
#import "shared/attention_limits.wgsl"

#import "shared/attention_tile.wgsl"

#import "shared/attention_quad.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_quad.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_quad.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_quad.wgsl" FN=load_o FROM=o
#import "shared/attention_quad.wgsl" FN=load_dout FROM=dout
#import "shared/attention_quad_store.wgsl" FN=store_dq TO={{DQ}}

#import "shared/main.wgsl"
{
    let index = workgroup.y;
    let b = index / p.heads;
    let h = index % p.heads;
    let q0 = h * p.head;
    let k0 = p.k0 + h / p.group * p.head;
    let v0 = p.v0 + h / p.group * p.head;
#import "shared/attention_place.wgsl"
    var part = vec4<f32>(); // of delta
#for I in 0..4
    let row_{{I}} = min(row + {{I}}u, p.t - 1u);
#for D in 0..DEPTH
    var dq_{{I}}_{{D}} = vec4<f32>();
    {
        let oat = (b * p.t + row_{{I}}) * p.os + q0;
        part[{{I}}] = add_dot(part[{{I}}], {{ROUND}}(load_dout(oat, across + {{D}}u * ACROSS)), load_o(oat, across + {{D}}u * ACROSS));
    }
#end
#end
    others[down % {{SLOTS}}u][across][down / {{SLOTS}}u] = part;
    workgroupBarrier();
    var delta_of = vec4<f32>();
#for A in 0..ACROSS
    delta_of += others[down % {{SLOTS}}u][{{A}}][down / {{SLOTS}}u];
#end
    if (across == 0u) {
        weights[down / 4u][down % 4u][DOWN] = delta_of; // since registers are dear, in the column that keeps banks apart
#for I in 0..4
        if (row + {{I}}u < p.t) {
            delta[index * p.t + row + {{I}}u] = delta_of[{{I}}];
        }
#end
    }
    let end = keys_end(min(first + ROWS, p.t) - 1u);
#if LOCAL
    for (var begin = keys_first(b, first); begin < end; begin += OTHERS) {
#else
    for (var begin = 0u; begin < end; begin += OTHERS) {
#endif
        let met = min(OTHERS, end - begin);
#import "shared/attention_scores.wgsl" TO=s ROW=load_q ROW_STRIDE=p.qs ROW_AT=q0 OTHER=load_k OTHER_STRIDE=p.ks OTHER_AT=k0
        // Weights wait where the gradients of scores go, and lse is read in every block, since registers are dear.
#for I in 0..4
        let lse_{{I}} = lse[index * p.t + min(row + {{I}}u, p.t - 1u)];
#end
#if LOCAL
#for I in 0..4
        let from_{{I}} = keys_first(b, min(row + {{I}}u, p.t - 1u));
#end
#endif
#for J in 0..COLUMNS
        {
            let key = begin + across + {{J}}u * ACROSS;
            var w: vec4<f32>;
#for I in 0..4
            w[{{I}}] = weight(row + {{I}}u, key, s_{{J}}[{{I}}], lse_{{I}});
#if LOCAL
            w[{{I}}] = select(0.0, w[{{I}}], key >= from_{{I}});
#endif
#if CAPPED
            w[{{I}}] *= slope(s_{{J}}[{{I}}]);
#endif
#end
            weights[(across + {{J}}u * ACROSS) / 4u][across % 4u][down] = w;
        }
#end
#import "shared/attention_scores.wgsl" TO=e ROW=load_dout ROW_STRIDE=p.os ROW_AT=q0 OTHER=load_v OTHER_STRIDE=p.vs OTHER_AT=v0
        let delta_of_row = weights[down / 4u][down % 4u][DOWN];
#for J in 0..COLUMNS
        {
            let w = weights[(across + {{J}}u * ACROSS) / 4u][across % 4u][down];
            weights[(across + {{J}}u * ACROSS) / 4u][across % 4u][down] = {{ROUND}}(w * (e_{{J}} - delta_of_row));
        }
#end
#import "shared/attention_sums.wgsl" TO=dq OTHER=load_k OTHER_STRIDE=p.ks OTHER_AT=k0
    }
#for I in 0..4
    if (row + {{I}}u < p.t) {
        let qat = (b * p.t + row + {{I}}u) * p.qs + q0;
#for D in 0..DEPTH
        store_dq(qat, across + {{D}}u * ACROSS, dq_{{I}}_{{D}} * p.scale);
#end
    }
#end
}
