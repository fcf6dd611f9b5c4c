// delta_pairs: gradients of the pairs of tokens in a chunk: M dP in the place of P and beta M dA in the place of N, with dP = dO U^T, dA = -dR U^T below the
// diagonal; and what they add to the gradients of the sums of g and of beta. A workgroup has a chunk of a head, an invocation a token.
// Twin: graph.GatedDeltaGrad.Eval.
#import "shared/delta.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> v: array<{{ELEMENT}}>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read_write> work: array<vec4<f32>>;

#import "shared/delta_load.wgsl" FN=load_v FROM=v DIM=VALUE_DIM
#import "shared/delta_load.wgsl" FN=load_dout FROM=dout DIM=VALUE_DIM

var<workgroup> rows: array<vec4<f32>, {{ROWS}}>;  // [8, VALUE4], of U
var<workgroup> terms: array<f32, {{TERMS}}>;      // [C, 8]
var<workgroup> columns: array<f32, {{CHUNK}}>;

#import "shared/delta_put.wgsl"

@compute @workgroup_size({{CHUNK}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let b = group.y / p.heads;
    let h = group.y % p.heads;
    let base = (group.y * p.chunks + group.x) * STRIDE;
    let count = min(C, p.t - group.x * C);
    let inside = i < count;
    let own = (b * p.t + group.x * C + min(i, count - 1u)) * p.heads + h;
    let sum = number(base + G, i);
    let rate = number(base + BETA, i);
    let first = u32(number(base + FIRST, i));
    var d_sum = 0.0;
    var d_rate = 0.0;
    for (var d = 0u; d < p.value4; d++) {
        d_rate += dot(work[base + R + i * VALUE4 + d], load_v(own, d));
    }
    for (var begin = 0u; begin < p.c; begin += 8u) {
        workgroupBarrier();
        for (var e = i; e < 8u * VALUE4; e += C) {
            rows[e] = work[base + U + begin * VALUE4 + e];
        }
        workgroupBarrier();
#for J in 0..8
        var dp_{{J}} = 0.0;
        var da_{{J}} = 0.0;
#end
        if (begin <= i && inside) {
            for (var d = 0u; d < p.value4; d++) {
                let d_out = load_dout(own, d);
                let dr = work[base + R + i * VALUE4 + d];
#for J in 0..8
                dp_{{J}} += dot(d_out, rows[{{J}}u * VALUE4 + d]);
                da_{{J}} -= dot(dr, rows[{{J}}u * VALUE4 + d]);
#end
            }
        }
#for J in 0..8
        {
            let j = begin + {{J}}u;
            var m = 0.0;
            if (inside && j <= i && j >= first) {
                m = exp(sum - number(base + G, j));
            }
            let below = select(0.0, da_{{J}}, j < i);
            let pair = number(base + P + i * C4, j);
            let keys = number(base + N + i * C4, j);
            let term = dp_{{J}} * pair + below * (rate * keys);
            d_sum += term;
            d_rate += below * keys;
            terms[i * 8u + {{J}}u] = term;
            put(base + P + i * C4, j, m * dp_{{J}});
            put(base + N + i * C4, j, rate * (m * below));
        }
#end
        workgroupBarrier();
        if (i < 8u) {
            var column = 0.0;
            for (var j = 0u; j < p.c; j++) {
                column += terms[j * 8u + i];
            }
            columns[begin + i] = column;
        }
    }
    workgroupBarrier();
    put(base + DG, i, d_sum - columns[i]);
    put(base + DBETA, i, d_rate);
}
