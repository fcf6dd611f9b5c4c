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

var<workgroup> queries: array<array<array<array<vec4<f32>, {{SPLIT}}>, 4>, {{TURNS}}>, {{DEPTH}}>;
var<workgroup> douts: array<array<array<array<vec4<f32>, {{SPLIT}}>, 4>, {{TURNS}}>, {{DEPTH}}>;
// Of each row and two neighbours of a turn: q k^T of the one and the other, dout v^T of the one and the other.
var<workgroup> shares: array<array<array<array<vec4<f32>, PITCH>, 2>, {{ROWS}}>, {{TEAMS}}>;
var<workgroup> stats: array<array<vec2<f32>, 4>, {{TURNS}}>; // lse and delta of the positions
var<workgroup> weights: array<array<array<vec2<f32>, 2>, {{ROWS}}>, {{TEAMS}}>;
var<workgroup> dscores: array<array<array<vec2<f32>, 2>, {{ROWS}}>, {{TEAMS}}>;

#import "shared/attention_quad.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_quad.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_quad.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_quad.wgsl" FN=load_dout FROM=dout
#import "shared/attention_quad_store.wgsl" FN=store_dk TO={{DK}}
#import "shared/attention_quad_store.wgsl" FN=store_dv TO={{DV}}

#import "shared/main.wgsl" LANES=64
{
    let kvheads = p.heads / p.group;
    let b = workgroup.y / kvheads;
    let kv = workgroup.y % kvheads;
    let team = lane / SPLIT;
    let part = lane % SPLIT;
    let first = workgroup.x * TEAMS * ROWS; // of the workgroup
    let row = first + team * ROWS;          // of the team
    // Keys past the end repeat the last one and are not stored.
#for R in 0..ROWS
    let kat_{{R}} = (b * p.t + min(row + {{R}}u, p.t - 1u)) * p.ks + p.k0 + kv * p.head;
    let vat_{{R}} = (b * p.t + min(row + {{R}}u, p.t - 1u)) * p.vs + p.v0 + kv * p.head;
#for D in 0..DEPTH
    let k_{{R}}_{{D}} = {{ROUND}}(load_k(kat_{{R}}, part + {{D}}u * SPLIT));
    let v_{{R}}_{{D}} = {{ROUND}}(load_v(vat_{{R}}, part + {{D}}u * SPLIT));
    var dk_{{R}}_{{D}} = vec4<f32>();
    var dv_{{R}}_{{D}} = vec4<f32>();
#end
#end
    // The row and the two neighbours of a turn whose scores this invocation joins.
    let mine = part / 2u % ROWS;
    let two = part % 2u;
#if LOCAL
    let till_mine = positions_end(b, min(row + mine, p.t - 1u));
    let end = positions_end(b, min(first + TEAMS * ROWS, p.t) - 1u);
#endif
    for (var g = 0u; g < p.group; g++) {
        let h = kv * p.group + g;
        let lat = (b * p.heads + h) * p.t;
#if LOCAL
        for (var begin = positions_begin(first); begin < end; begin += TEAMS) {
#else
        for (var begin = positions_begin(first); begin < p.t; begin += TEAMS) {
#endif
            workgroupBarrier();
            let i = min(begin + team, p.t - 1u);
            let staged = b * p.t + i;
            if (part == 0u) {
                stats[team / 4u][team % 4u] = vec2<f32>(lse[lat + i], delta[lat + i]);
            }
#for D in 0..DEPTH
            queries[{{D}}][team / 4u][team % 4u][part] = {{ROUND}}(load_q(staged * p.qs + h * p.head, part + {{D}}u * SPLIT));
            douts[{{D}}][team / 4u][team % 4u][part] = {{ROUND}}(load_dout(staged * p.os + h * p.head, part + {{D}}u * SPLIT));
#end
            workgroupBarrier();
#if LOCAL
            let turns = min({{TURNS}}u, (end - begin + 3u) / 4u);
#else
            let turns = min({{TURNS}}u, (p.t - begin + 3u) / 4u);
#endif
            for (var turn = 0u; turn < turns; turn++) {
#for R in 0..ROWS
                var s_{{R}} = vec4<f32>();
                var e_{{R}} = vec4<f32>();
#end
#for D in 0..DEPTH
#for J in 0..4
                {
                    let query = queries[{{D}}][turn][{{J}}][part];
                    let dout_j = douts[{{D}}][turn][{{J}}][part];
#for R in 0..ROWS
                    s_{{R}}[{{J}}] = add_dot(s_{{R}}[{{J}}], query, k_{{R}}_{{D}});
                    e_{{R}}[{{J}}] = add_dot(e_{{R}}[{{J}}], dout_j, v_{{R}}_{{D}});
#end
                }
#end
#end
#import "shared/attention_join.wgsl"
                let i = begin + 4u * turn + 2u * two;
                let stats_0 = stats[turn][2u * two];
                let stats_1 = stats[turn][2u * two + 1u];
#if LOCAL
                var w = vec2<f32>(weight(i, row + mine, joined.x, stats_0.x), weight(i + 1u, row + mine, joined.y, stats_1.x));
                w = select(vec2<f32>(), w, vec2<u32>(i, i + 1u) < vec2<u32>(till_mine));
#else
                let w = vec2<f32>(weight(i, row + mine, joined.x, stats_0.x), weight(i + 1u, row + mine, joined.y, stats_1.x));
#endif
                if (part < 2u * ROWS) {
                    weights[team][mine][two] = {{ROUND}}(w.xyxy).xy;
#if CAPPED
                    dscores[team][mine][two] = {{ROUND}}((w * (joined.zw - vec2<f32>(stats_0.y, stats_1.y)) * vec2<f32>(slope(joined.x), slope(joined.y))).xyxy).xy;
#else
                    dscores[team][mine][two] = {{ROUND}}((w * (joined.zw - vec2<f32>(stats_0.y, stats_1.y))).xyxy).xy;
#endif
                }
                workgroupBarrier();
#for R in 0..ROWS
                let w_{{R}} = vec4<f32>(weights[team][{{R}}][0], weights[team][{{R}}][1]);
                let ds_{{R}} = vec4<f32>(dscores[team][{{R}}][0], dscores[team][{{R}}][1]);
#end
#for D in 0..DEPTH
#for J in 0..4
                {
                    let query = queries[{{D}}][turn][{{J}}][part];
                    let dout_j = douts[{{D}}][turn][{{J}}][part];
#for R in 0..ROWS
                    dk_{{R}}_{{D}} += ds_{{R}}[{{J}}] * query;
                    dv_{{R}}_{{D}} += w_{{R}}[{{J}}] * dout_j;
#end
                }
#end
#end
            }
        }
    }
#for R in 0..ROWS
    if (row + {{R}}u < p.t) {
#for D in 0..DEPTH
        store_dk(kat_{{R}}, part + {{D}}u * SPLIT, dk_{{R}}_{{D}} * p.scale);
        store_dv(vat_{{R}}, part + {{D}}u * SPLIT, dv_{{R}}_{{D}});
#end
    }
#end
}
