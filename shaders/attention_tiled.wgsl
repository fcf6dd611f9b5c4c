// attention_tiled: attention of a GPU, o = softmax(scale q k^T) v head by head, and lse = log(sum(exp(scale q k^T))) a position,
// by online softmax: no matrix of scores is kept. Rows are positions, and meet the keys that any of the workgroup sees.
// -2e38 stands for minus infinity. Twin: graph.Attention.Eval.
#import "shared/attention_operands.wgsl"
@bind var<storage, read_write> o: array<{{ELEMENT}}>;
@bind var<storage, read_write> lse: array<f32>;
#import "shared/attention_limits.wgsl"

#import "shared/attention_tile.wgsl"

// A turn's four keys are neighbours, so that an index is one for all; one more share than there are keeps rows apart in their banks.
var<workgroup> keys: array<array<array<array<vec4<f32>, {{SPLIT}}>, 4>, {{TURNS}}>, {{DEPTH}}>;
var<workgroup> values: array<array<array<array<vec4<f32>, {{SPLIT}}>, 4>, {{TURNS}}>, {{DEPTH}}>;
var<workgroup> shares: array<array<array<vec4<f32>, PITCH>, {{ROWS}}>, {{TEAMS}}>;
var<workgroup> weights: array<array<vec4<f32>, {{ROWS}}>, {{TEAMS}}>;
var<workgroup> factors: array<array<f32, {{ROWS}}>, {{TEAMS}}>;

#import "shared/attention_quad.wgsl" FN=load_q FROM={{Q}}
#import "shared/attention_quad.wgsl" FN=load_k FROM={{K}}
#import "shared/attention_quad.wgsl" FN=load_v FROM={{V}}
#import "shared/attention_quad_store.wgsl" FN=store_o TO=o

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
#for D in 0..DEPTH
    let q_{{R}}_{{D}} = {{ROUND}}(load_q(qat_{{R}}, part + {{D}}u * SPLIT));
    var o_{{R}}_{{D}} = vec4<f32>();
#end
#end
    let mine = part % ROWS; // the row whose scores this invocation joins
#if LOCAL
    let from_mine = keys_first(b, min(row + mine, p.t - 1u));
    var m = 0.5 * LOWEST; // above the score of a key that is not seen, should such come first
#else
    var m = LOWEST;
#endif
    var l = 0.0;
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
#end
#for D in 0..DEPTH
#for J in 0..4
            {
                let key = keys[{{D}}][turn][{{J}}][part];
#for R in 0..ROWS
                s_{{R}}[{{J}}] = add_dot(s_{{R}}[{{J}}], q_{{R}}_{{D}}, key);
#end
            }
#end
#end
#for R in 0..ROWS
            shares[team][{{R}}][part] = s_{{R}};
#end
            workgroupBarrier();
            var s = shares[team][mine][0];
#for I in 1..SPLIT
            s += shares[team][mine][{{I}}];
#end
#for J in 0..4
#if LOCAL
            s[{{J}}] = select(LOWEST, scored(s[{{J}}]), sees(row + mine, begin + 4u * turn + {{J}}u) && begin + 4u * turn + {{J}}u >= from_mine);
#else
            s[{{J}}] = select(LOWEST, scored(s[{{J}}]), sees(row + mine, begin + 4u * turn + {{J}}u));
#endif
#end
            let old = m;
            m = max(max(max(s.x, s.y), max(s.z, s.w)), old);
            let w = exp2(fma(s, vec4<f32>(LOG2E), vec4<f32>(-LOG2E * m))); // exp(s - m), an operation less for each
            let shrink = exp(old - m);
            l = l * shrink + ((w.x + w.y) + (w.z + w.w));
            if (part < ROWS) {
                weights[team][part] = {{ROUND}}(w);
                factors[team][part] = shrink;
            }
            workgroupBarrier();
#for R in 0..ROWS
            let w_{{R}} = weights[team][{{R}}];
            let shrink_{{R}} = factors[team][{{R}}];
#end
#for D in 0..DEPTH
#for R in 0..ROWS
            o_{{R}}_{{D}} *= shrink_{{R}};
#end
#for J in 0..4
            {
                let value = values[{{D}}][turn][{{J}}][part];
#for R in 0..ROWS
                o_{{R}}_{{D}} += w_{{R}}[{{J}}] * value;
#end
            }
#end
#end
        }
    }
    workgroupBarrier();
    if (part < ROWS) {
        factors[team][part] = 1.0 / l;
        if (row + part < p.t) {
            lse[index * p.t + row + part] = m + log(l);
        }
    }
    workgroupBarrier();
#for R in 0..ROWS
    if (row + {{R}}u < p.t) {
        let oat = (b * p.t + row + {{R}}u) * p.os + h * p.head;
#for D in 0..DEPTH
        store_o(oat, part + {{D}}u * SPLIT, o_{{R}}_{{D}} * factors[team][{{R}}]);
#end
    }
#end
}
