// delta_chunks: what chunks of the gated delta rule (shared/delta.wgsl) have before any state is known: a, b, beta, G, T and P; BACK: N too.
// A workgroup has a chunk of a head, an invocation a token. Twin: graph.GatedDelta.Eval.
#import "shared/delta.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> q: array<{{ELEMENT}}>;
@bind var<storage, read> k: array<{{ELEMENT}}>;
@bind var<storage, read> g: array<f32>;
@bind var<storage, read> beta: array<f32>;
#if DOCUMENTS
@bind var<storage, read> positions: array<i32>;
#endif
@bind var<storage, read_write> work: array<vec4<f32>>;

#import "shared/delta_load.wgsl" FN=load_q FROM=q DIM=KEY_DIM
#import "shared/delta_load.wgsl" FN=load_k FROM=k DIM=KEY_DIM

const BLOCK = {{BLOCK}}u; // keys that tokens meet at a time
var<workgroup> sums: array<f32, {{CHUNK}}>;
var<workgroup> keys: array<vec4<f32>, {{KEYS}}>;
var<workgroup> lower: array<f32, {{LOWER}}>; // below the diagonal: beta N, then T

fn below(i: u32, j: u32) -> u32 {
    return i * (i - 1u) / 2u + j;
}

#import "shared/delta_put.wgsl"

@compute @workgroup_size({{CHUNK}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let b = group.y / p.heads;
    let h = group.y % p.heads;
    let base = (group.y * p.chunks + group.x) * STRIDE;
    let start = b * p.t + group.x * C;
    let count = min(C, p.t - group.x * C);
    let inside = i < count;
    let here = min(i, count - 1u);
    let token = start + here;
    let key_heads = p.heads / p.group;
    let own = token * key_heads + h / p.group;

    var decay = 0.0;
    var rate = 0.0;
    if (inside) {
        decay = g[token * p.heads + h];
        rate = beta[token * p.heads + h];
    }
    sums[i] = decay;
    workgroupBarrier();
    var sum = 0.0;
    for (var j = 0u; j <= i; j++) {
        sum += sums[j];
    }
    workgroupBarrier();
    sums[i] = sum;
    workgroupBarrier();
    let whole = sums[C - 1u];
    var first = 0u; // that the token sees
    var last_first = 0u;
    var sees = 1.0; // the state
    var last_sees = 1.0;
#if DOCUMENTS
    let at = u32(positions[token]);
    if (at <= here) {
        first = here - at;
        sees = 0.0;
    }
    let last_at = u32(positions[start + count - 1u]);
    if (last_at < count) {
        last_first = count - 1u - last_at;
        last_sees = 0.0;
    }
#endif
    var a = 0.0;
    var to_end = 0.0;
    if (inside) {
        a = sees * exp(sum);
        if (i >= last_first) {
            to_end = exp(whole - sum);
        }
    }
    put(base + A, i, a);
    put(base + B, i, to_end);
    put(base + BETA, i, rate);
    put(base + G, i, sum);
    put(base + FIRST, i, f32(first));
    if (i == 0u) {
        work[base + WHOLE] = vec4<f32>(last_sees * exp(whole));
    }

    for (var begin = 0u; begin < p.c; begin += BLOCK) {
        workgroupBarrier();
        for (var e = i; e < BLOCK * KEY4; e += C) {
            let j = min(begin + e / KEY4, count - 1u);
            keys[e] = load_k((start + j) * key_heads + h / p.group, e % KEY4);
        }
        workgroupBarrier();
#for J in 0..BLOCK
        var kk_{{J}} = 0.0;
        var qk_{{J}} = 0.0;
#end
        if (begin <= i && inside) {
            for (var d = 0u; d < p.key4; d++) {
                let kd = load_k(own, d);
                let qd = load_q(own, d);
#for J in 0..BLOCK
                kk_{{J}} += dot(kd, keys[{{J}}u * KEY4 + d]);
                qk_{{J}} += dot(qd, keys[{{J}}u * KEY4 + d]);
#end
            }
        }
#for J in 0..BLOCK
        {
            let j = begin + {{J}}u;
            var m = 0.0;
            if (inside && j <= i && j >= first) {
                m = exp(sum - sums[j]);
            }
            put(base + P + i * C4, j, m * qk_{{J}});
            if (j < i) {
                lower[below(i, j)] = rate * (m * kk_{{J}});
            }
#if BACK
            put(base + N + i * C4, j, select(0.0, m * kk_{{J}}, j < i));
#endif
        }
#end
    }
    // Row by row, each of those above it: T_ic = -(A_ic + sum of A_ij T_jc over c < j < i), A = beta N.
    for (var row = 1u; row < p.c; row++) {
        workgroupBarrier();
        var x = 0.0;
        if (i < row) {
            x = lower[below(row, i)];
            for (var j = i + 1u; j < row; j++) {
                x += lower[below(row, j)] * lower[below(j, i)];
            }
        }
        workgroupBarrier();
        if (i < row) {
            lower[below(row, i)] = -x;
        }
    }
    workgroupBarrier();
    for (var j = 0u; j < p.c; j++) {
        var x = 0.0;
        if (j < i) {
            x = lower[below(i, j)];
        }
        if (j == i) {
            x = 1.0;
        }
        put(base + T + i * C4, j, x);
    }
}
