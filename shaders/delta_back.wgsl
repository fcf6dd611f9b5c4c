// delta_back: the gradients of states, of R = beta (V - a K S) and of v, from chunk to chunk from the last on:
//   dU = P^T dO + b K dS;  dR = T^T dU;  dV = beta dR;  dS before = a_C dS + Q^T (a dO) - K^T (a dV)
// Work is divided as in delta. Writes the gradient of the state behind each chunk. Twin: graph.GatedDeltaGrad.Eval.
#import "shared/delta.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> q: array<{{ELEMENT}}>;
@bind var<storage, read> k: array<{{ELEMENT}}>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read_write> work: array<vec4<f32>>;
@bind var<storage, read_write> dstates: array<{{ELEMENT}}>;
@bind var<storage, read_write> dv: array<{{ELEMENT}}>;

#import "shared/delta_load.wgsl" FN=load_q FROM=q DIM=KEY_DIM
#import "shared/delta_load.wgsl" FN=load_k FROM=k DIM=KEY_DIM
#import "shared/delta_load.wgsl" FN=load_dout FROM=dout DIM=VALUE_DIM
#import "shared/delta_store.wgsl" FN=store_dv TO=dv DIM=VALUE_DIM
#import "shared/delta_store.wgsl" FN=store_state TO=dstates DIM=VALUE_DIM

const Q = {{QUADS}}u; // of columns
const ROWS = 4u * KEY4;
var<workgroup> state: array<vec4<f32>, {{STATE}}>; // [ROWS, Q], dS
var<workgroup> w: array<vec4<f32>, {{TILE}}>;      // [C, Q]: dO, dU, dR

@compute @workgroup_size({{LANES}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let b = group.y / p.heads;
    let h = group.y % p.heads;
    let key_heads = p.heads / p.group;
    let i = lane % C;
    let c = lane / C;
    let quad = group.x * Q + c;
    let live = quad < VALUE4;
    let column = min(quad, VALUE4 - 1u);
    for (var e = lane; e < ROWS * Q; e += {{LANES}}u) {
        state[e] = vec4<f32>();
    }
    for (var left = p.chunks; left > 0u; left--) {
        let n = left - 1u;
        let base = (group.y * p.chunks + n) * STRIDE;
        let count = min(C, p.t - n * C);
        let start = b * p.t + n * C;
        let token = start + min(i, count - 1u);
        let own = token * key_heads + h / p.group;
        workgroupBarrier();
        for (var e = lane; e < KEY_DIM * Q; e += {{LANES}}u) {
            if (group.x * Q + e % Q < VALUE4) {
                store_state(((b * p.chunks + n) * p.heads + h) * KEY_DIM + e / Q, group.x * Q + e % Q, state[e]);
            }
        }
        var d_out = vec4<f32>();
        if (i < count) {
            d_out = load_dout(token * p.heads + h, column);
        }
        w[i * Q + c] = d_out;
        workgroupBarrier();
        var ks = vec4<f32>();
        for (var d = 0u; d < p.key4; d++) {
            let kd = load_k(own, d);
#for X in 0..4
            ks += kd[{{X}}] * state[(4u * d + {{X}}u) * Q + c];
#end
        }
        var du = number(base + B, i) * ks;
        for (var j = i; j < p.c; j++) {
            du += number(base + P + j * C4, i) * w[j * Q + c];
        }
        workgroupBarrier();
        let a = number(base + A, i);
        let beta = number(base + BETA, i);
        w[i * Q + c] = a * d_out;
        workgroupBarrier();
#import "shared/delta_carry.wgsl" LOAD=load_q OF=w
        workgroupBarrier();
        w[i * Q + c] = du;
        workgroupBarrier();
        var dr = vec4<f32>();
        for (var j = i; j < p.c; j++) {
            dr += number(base + T + j * C4, i) * w[j * Q + c];
        }
        workgroupBarrier();
        w[i * Q + c] = (a * beta) * dr;
        if (live) {
            work[base + R + i * VALUE4 + quad] = dr;
            if (i < count) {
                store_dv(token * p.heads + h, quad, beta * dr);
            }
        }
        workgroupBarrier();
        for (var e = lane; e < KEY4 * Q; e += {{LANES}}u) {
            let at = 4u * (e % KEY4) * Q + e / KEY4;
#for X in 0..4
            var s_{{X}} = state[at + {{X}}u * Q];
#end
            for (var j = 0u; j < count; j++) {
                let kd = load_k((start + j) * key_heads + h / p.group, e % KEY4);
                let y = w[j * Q + e / KEY4];
#for X in 0..4
                s_{{X}} -= kd[{{X}}] * y;
#end
            }
#for X in 0..4
            state[at + {{X}}u * Q] = s_{{X}};
#end
        }
    }
}
