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

var<workgroup> keys: array<array<array<array<vec4<f32>, {{SPLIT}}>, 4>, {{TURNS}}>, {{DEPTH}}>;
var<workgroup> values: array<array<array<array<vec4<f32>, {{SPLIT}}>, 4>, {{TURNS}}>, {{DEPTH}}>;
// Of each row and two neighbours of a turn: q k^T of the one and the other, dout v^T of the one and the other.
var<workgroup> shares: array<array<array<array<vec4<f32>, PITCH>, 2>, {{ROWS}}>, {{TEAMS}}>;
var<workgroup> dscores: array<array<array<vec2<f32>, 2>, {{ROWS}}>, {{TEAMS}}>;

#import "shared/attention_quad.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_quad.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_quad.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_quad.wgsl" FN=load_o FROM=o
#import "shared/attention_quad.wgsl" FN=load_dout FROM=dout
#import "shared/attention_quad_store.wgsl" FN=store_dq TO={{DQ}}

#import "shared/main.wgsl" LANES=64
{
    let index = workgroup.y;
    let b = index / p.heads;
    let h = index % p.heads;
    let team = lane / SPLIT;
    let part = lane % SPLIT;
    let first = workgroup.x * TEAMS * ROWS; // of the workgroup
    let row = first + team * ROWS;          // of the team
    let kat = b * p.t * p.ks + p.k0 + h / p.group * p.head;
    let vat = b * p.t * p.vs + p.v0 + h / p.group * p.head;
    // Positions past the end repeat the last one and are not stored.
#for R in 0..ROWS
    let qat_{{R}} = (b * p.t + min(row + {{R}}u, p.t - 1u)) * p.qs + h * p.head;
    let oat_{{R}} = (b * p.t + min(row + {{R}}u, p.t - 1u)) * p.os + h * p.head;
    var delta_{{R}} = 0.0;
#for D in 0..DEPTH
    let q_{{R}}_{{D}} = {{ROUND}}(load_q(qat_{{R}}, part + {{D}}u * SPLIT));
    let g_{{R}}_{{D}} = {{ROUND}}(load_dout(oat_{{R}}, part + {{D}}u * SPLIT));
    delta_{{R}} = add_dot(delta_{{R}}, g_{{R}}_{{D}}, load_o(oat_{{R}}, part + {{D}}u * SPLIT));
    var dq_{{R}}_{{D}} = vec4<f32>();
#end
    shares[team][{{R}}][0][part] = vec4<f32>(delta_{{R}});
#end
    // The row and the two neighbours of a turn whose scores this invocation joins.
    let mine = part / 2u % ROWS;
    let two = part % 2u;
    let at = index * p.t + min(row + mine, p.t - 1u);
    workgroupBarrier();
    var delta_mine = shares[team][mine][0][0].x;
#for I in 1..SPLIT
    delta_mine += shares[team][mine][0][{{I}}].x;
#end
    let lse_mine = lse[at];
#if LOCAL
    let from_mine = keys_first(b, min(row + mine, p.t - 1u));
#endif
    if (part < 2u * ROWS && two == 0u && row + mine < p.t) {
        delta[at] = delta_mine;
    }
    let end = keys_end(min(first + TEAMS * ROWS, p.t) - 1u);
#if LOCAL
    for (var begin = keys_first(b, first); begin < end; begin += TEAMS) {
#else
    for (var begin = 0u; begin < end; begin += TEAMS) {
#endif
        workgroupBarrier();
        let staged = min(begin + team, p.t - 1u);
#for D in 0..DEPTH
        keys[{{D}}][team / 4u][team % 4u][part] = {{ROUND}}(load_k(kat + staged * p.ks, part + {{D}}u * SPLIT));
        values[{{D}}][team / 4u][team % 4u][part] = {{ROUND}}(load_v(vat + staged * p.vs, part + {{D}}u * SPLIT));
#end
        workgroupBarrier();
        let turns = min({{TURNS}}u, (end - begin + 3u) / 4u);
        for (var turn = 0u; turn < turns; turn++) {
#for R in 0..ROWS
            var s_{{R}} = vec4<f32>();
            var e_{{R}} = vec4<f32>();
#end
#for D in 0..DEPTH
#for J in 0..4
            {
                let key = keys[{{D}}][turn][{{J}}][part];
                let value = values[{{D}}][turn][{{J}}][part];
#for R in 0..ROWS
                s_{{R}}[{{J}}] = add_dot(s_{{R}}[{{J}}], q_{{R}}_{{D}}, key);
                e_{{R}}[{{J}}] = add_dot(e_{{R}}[{{J}}], g_{{R}}_{{D}}, value);
#end
            }
#end
#end
#import "shared/attention_join.wgsl"
            let j = begin + 4u * turn + 2u * two;
#if LOCAL
            var w = vec2<f32>(weight(row + mine, j, joined.x, lse_mine), weight(row + mine, j + 1u, joined.y, lse_mine));
            w = select(vec2<f32>(), w, vec2<u32>(j, j + 1u) >= vec2<u32>(from_mine));
#else
            let w = vec2<f32>(weight(row + mine, j, joined.x, lse_mine), weight(row + mine, j + 1u, joined.y, lse_mine));
#endif
            if (part < 2u * ROWS) {
#if CAPPED
                dscores[team][mine][two] = {{ROUND}}((w * (joined.zw - delta_mine) * vec2<f32>(slope(joined.x), slope(joined.y))).xyxy).xy;
#else
                dscores[team][mine][two] = {{ROUND}}((w * (joined.zw - delta_mine)).xyxy).xy;
#endif
            }
            workgroupBarrier();
#for R in 0..ROWS
            let ds_{{R}} = vec4<f32>(dscores[team][{{R}}][0], dscores[team][{{R}}][1]);
#end
#for D in 0..DEPTH
#for J in 0..4
            {
                let key = keys[{{D}}][turn][{{J}}][part];
#for R in 0..ROWS
                dq_{{R}}_{{D}} += ds_{{R}}[{{J}}] * key;
#end
            }
#end
#end
        }
    }
#for R in 0..ROWS
    if (row + {{R}}u < p.t) {
#for D in 0..DEPTH
        store_dq(qat_{{R}}, part + {{D}}u * SPLIT, dq_{{R}}_{{D}} * p.scale);
#end
    }
#end
}
