// attention_tiled: attention of a GPU, o = softmax(scale q k^T) v head by head, and lse = log(sum(exp(scale q k^T))) a position,
// by online softmax: no matrix of scores is kept. Rows are positions, and meet the keys that any of the workgroup sees.
// -2e38 stands for minus infinity. Twin: graph.Attention.Eval.
#import "shared/attention_operands.wgsl"
@bind var<storage, read_write> o: array<{{ELEMENT}}>;
@bind var<storage, read_write> lse: array<f32>;
#import "shared/attention_limits.wgsl"

#import "shared/attention_tile.wgsl"

#import "shared/attention_quad.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_quad.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_quad.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_quad_store.wgsl" FN=store_o TO=o

#import "shared/main.wgsl"
{
    let index = workgroup.y;
    let b = index / p.heads;
    let h = index % p.heads;
    let q0 = h * p.head;
    let k0 = p.k0 + h / p.group * p.head;
    let v0 = p.v0 + h / p.group * p.head;
#import "shared/attention_place.wgsl"
#for I in 0..4
#for D in 0..DEPTH
    var o_{{I}}_{{D}} = vec4<f32>();
#end
#end
#if LOCAL
    var m = vec4<f32>(0.5 * LOWEST); // above the score of a key that is not seen, should such come first
#else
    var m = vec4<f32>(LOWEST);
#endif
    var l = vec4<f32>(); // of the keys of this invocation
    let end = keys_end(min(first + ROWS, p.t) - 1u);
#if LOCAL
    for (var begin = keys_first(b, first); begin < end; begin += OTHERS) {
#else
    for (var begin = 0u; begin < end; begin += OTHERS) {
#endif
        let met = min(OTHERS, end - begin);
#import "shared/attention_scores.wgsl" TO=s ROW=load_q ROW_STRIDE=p.qs ROW_AT=q0 OTHER=load_k OTHER_STRIDE=p.ks OTHER_AT=k0
        // Rows share their maximum over the block.
        let old = m;
#if LOCAL
#for I in 0..4
        let from_{{I}} = keys_first(b, min(row + {{I}}u, p.t - 1u));
#end
#endif
#for J in 0..COLUMNS
        {
            let key = begin + across + {{J}}u * ACROSS;
#for I in 0..4
#if LOCAL
            s_{{J}}[{{I}}] = select(LOWEST, scored(s_{{J}}[{{I}}]), sees(row + {{I}}u, key) && key >= from_{{I}});
#else
            s_{{J}}[{{I}}] = select(LOWEST, scored(s_{{J}}[{{I}}]), sees(row + {{I}}u, key));
#endif
#end
            m = max(m, s_{{J}});
        }
#end
        workgroupBarrier();
        others[down % {{SLOTS}}u][across][down / {{SLOTS}}u] = m;
        workgroupBarrier();
#for A in 0..ACROSS
        m = max(m, others[down % {{SLOTS}}u][{{A}}][down / {{SLOTS}}u]);
#end
        let shrink = exp(old - m);
        l *= shrink;
#for J in 0..COLUMNS
        {
            let w = exp2(fma(s_{{J}}, vec4<f32>(LOG2E), -LOG2E * m)); // exp(s - m), an operation less for each
            l += w;
            weights[(across + {{J}}u * ACROSS) / 4u][across % 4u][down] = {{ROUND}}(w);
        }
#end
#for I in 0..4
#for D in 0..DEPTH
        o_{{I}}_{{D}} *= shrink[{{I}}];
#end
#end
#import "shared/attention_sums.wgsl" TO=o OTHER=load_v OTHER_STRIDE=p.vs OTHER_AT=v0
    }
    workgroupBarrier();
    others[down % {{SLOTS}}u][across][down / {{SLOTS}}u] = l;
    workgroupBarrier();
    var total = vec4<f32>();
#for A in 0..ACROSS
    total += others[down % {{SLOTS}}u][{{A}}][down / {{SLOTS}}u];
#end
#for I in 0..4
    if (row + {{I}}u < p.t) {
        let oat = (b * p.t + row + {{I}}u) * p.os + h * p.head;
#for D in 0..DEPTH
        store_o(oat, across + {{D}}u * ACROSS, o_{{I}}_{{D}} / total[{{I}}]);
#end
        if (across == 0u) {
            lse[index * p.t + row + {{I}}u] = m[{{I}}] + log(total[{{I}}]);
        }
    }
#end
}
