// delta_keys: the gradients of queries and keys, and what is left of those of g and beta. With S the state before a chunk, dS the gradient of the one behind it:
//   X = dO S^T;  Y = dR S^T;  Z = U dS^T
//   dQ = a X + (M dP) K;  dK = b Z - a beta Y + (M dP)^T Q + (D + D^T) K, D = beta M dA
//   dG_i += a_i (q_i.X_i - beta_i k_i.Y_i) - b_i k_i.Z_i, at the last also the sum of b k.Z and a_C <S, dS>;  dbeta_i -= a_i k_i.Y_i
// A workgroup has a chunk of a key head and goes through its value heads, an invocation a token. Twin: graph.GatedDeltaGrad.Eval.
#import "shared/delta.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> q: array<{{ELEMENT}}>;
@bind var<storage, read> k: array<{{ELEMENT}}>;
@bind var<storage, read> states: array<{{ELEMENT}}>;
@bind var<storage, read> dstates: array<{{ELEMENT}}>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read_write> work: array<vec4<f32>>;
@bind var<storage, read_write> dq: array<{{ELEMENT}}>;
@bind var<storage, read_write> dk: array<{{ELEMENT}}>;

#import "shared/delta_load.wgsl" FN=load_q FROM=q DIM=KEY_DIM
#import "shared/delta_load.wgsl" FN=load_k FROM=k DIM=KEY_DIM
#import "shared/delta_load.wgsl" FN=load_state FROM=states DIM=VALUE_DIM
#import "shared/delta_load.wgsl" FN=load_dstate FROM=dstates DIM=VALUE_DIM
#import "shared/delta_load.wgsl" FN=load_dout FROM=dout DIM=VALUE_DIM
#import "shared/delta_load.wgsl" FN=load_dq FROM=dq DIM=KEY_DIM
#import "shared/delta_load.wgsl" FN=load_dk FROM=dk DIM=KEY_DIM
#import "shared/delta_store.wgsl" FN=store_dq TO=dq DIM=KEY_DIM
#import "shared/delta_store.wgsl" FN=store_dk TO=dk DIM=KEY_DIM

var<workgroup> s: array<vec4<f32>, {{STATE}}>;  // [4 TURN, VALUE4], of S
var<workgroup> ds: array<vec4<f32>, {{STATE}}>; // likewise of dS
var<workgroup> queries: array<vec4<f32>, {{TILE}}>; // [TURN, C]
var<workgroup> keys: array<vec4<f32>, {{TILE}}>;
var<workgroup> terms: array<f32, {{CHUNK}}>;

#import "shared/delta_put.wgsl"

@compute @workgroup_size({{CHUNK}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) i: u32) {
    let key_heads = p.heads / p.group;
    let b = group.y / key_heads;
    let key_head = group.y % key_heads;
    let count = min(C, p.t - group.x * C);
    let inside = i < count;
    let token = b * p.t + group.x * C + min(i, count - 1u);
    let own = token * key_heads + key_head;
    for (var member = 0u; member < p.group; member++) {
        let h = key_head * p.group + member;
        let base = ((b * p.heads + h) * p.chunks + group.x) * STRIDE;
        let kept = ((b * p.chunks + group.x) * p.heads + h) * KEY_DIM;
        let a = number(base + A, i);
        let to_end = number(base + B, i);
        let rate = number(base + BETA, i);
        var qx = 0.0;
        var ky = 0.0;
        var kz = 0.0;
        var ss = 0.0;
        for (var begin = 0u; begin < p.key4; begin += {{TURN}}u) {
            workgroupBarrier();
            for (var e = i; e < 4u * {{TURN}}u * VALUE4; e += C) {
                var x = vec4<f32>();
                var y = vec4<f32>();
                if (4u * begin + e / VALUE4 < KEY_DIM) {
                    x = load_state(kept + 4u * begin + e / VALUE4, e % VALUE4);
                    y = load_dstate(kept + 4u * begin + e / VALUE4, e % VALUE4);
                }
                s[e] = x;
                ds[e] = y;
                ss += dot(x, y);
            }
#for D in 0..TURN
            var query_{{D}} = vec4<f32>();
            var key_{{D}} = vec4<f32>();
            if (begin + {{D}}u < KEY4) {
                query_{{D}} = load_q(own, begin + {{D}}u);
                key_{{D}} = load_k(own, begin + {{D}}u);
            }
            queries[{{D}}u * C + i] = query_{{D}};
            keys[{{D}}u * C + i] = key_{{D}};
            var x_{{D}} = vec4<f32>();
            var y_{{D}} = vec4<f32>();
            var z_{{D}} = vec4<f32>();
#end
            workgroupBarrier();
            for (var e = 0u; e < p.value4; e++) {
                let d_out = load_dout(token * p.heads + h, e);
                let dr = work[base + R + i * VALUE4 + e];
                let u = work[base + U + i * VALUE4 + e];
#for D in 0..TURN
                {
                    let at = {{D}}u * 4u * VALUE4 + e;
                    let s0 = s[at];
                    let s1 = s[at + VALUE4];
                    let s2 = s[at + 2u * VALUE4];
                    let s3 = s[at + 3u * VALUE4];
                    x_{{D}} += vec4<f32>(dot(d_out, s0), dot(d_out, s1), dot(d_out, s2), dot(d_out, s3));
                    y_{{D}} += vec4<f32>(dot(dr, s0), dot(dr, s1), dot(dr, s2), dot(dr, s3));
                    z_{{D}} += vec4<f32>(dot(u, ds[at]), dot(u, ds[at + VALUE4]), dot(u, ds[at + 2u * VALUE4]), dot(u, ds[at + 3u * VALUE4]));
                }
#end
            }
#for D in 0..TURN
            qx += dot(query_{{D}}, x_{{D}});
            ky += dot(key_{{D}}, y_{{D}});
            kz += dot(key_{{D}}, z_{{D}});
            var d_query_{{D}} = a * x_{{D}};
            var d_key_{{D}} = to_end * z_{{D}} - (a * rate) * y_{{D}};
#end
            for (var j = 0u; j < p.c / 4u; j++) {
                let dp = work[base + P + i * C4 + j];
                let da = work[base + N + i * C4 + j];
#for X in 0..4
                {
                    let at = 4u * j + {{X}}u;
                    let both = da[{{X}}] + number(base + N + at * C4, i);
                    let across = number(base + P + at * C4, i);
#for D in 0..TURN
                    let key_at_{{D}} = keys[{{D}}u * C + at];
                    d_query_{{D}} += dp[{{X}}] * key_at_{{D}};
                    d_key_{{D}} += both * key_at_{{D}} + across * queries[{{D}}u * C + at];
#end
                }
#end
            }
#for D in 0..TURN
            if (inside && begin + {{D}}u < KEY4) {
                if (member > 0u) {
                    d_query_{{D}} += load_dq(own, begin + {{D}}u);
                    d_key_{{D}} += load_dk(own, begin + {{D}}u);
                }
                store_dq(own, begin + {{D}}u, d_query_{{D}});
                store_dk(own, begin + {{D}}u, d_key_{{D}});
            }
#end
        }
        // The gradient of g is the sum of those of the sums that have it.
        workgroupBarrier();
        let whole = work[base + WHOLE].x;
        terms[i] = to_end * kz + whole * ss;
        workgroupBarrier();
        var last = 0.0;
        for (var j = 0u; j < p.c; j++) {
            last += terms[j];
        }
        workgroupBarrier();
        terms[i] = number(base + DG, i) + a * (qx - rate * ky) - to_end * kz;
        workgroupBarrier();
        for (var j = i; j < p.c; j++) {
            last += terms[j];
        }
        put(base + DG, i, last);
        put(base + DBETA, i, number(base + DBETA, i) - a * ky);
    }
}
