// delta: the gated delta rule (shared/delta.wgsl) from chunk to chunk. A workgroup has some columns of the state of a head, an invocation a token and a quad of
// columns. STATES: writes the state before each chunk. AGAIN: a workgroup has one chunk, whose state is known, and writes U.
// Twin: graph.GatedDelta.Eval.
#import "shared/delta.wgsl"
@bind var<uniform> p: Params;
#if !AGAIN
@bind var<storage, read> q: array<{{ELEMENT}}>;
#endif
@bind var<storage, read> k: array<{{ELEMENT}}>;
@bind var<storage, read> v: array<{{ELEMENT}}>;
#if AGAIN
@bind var<storage, read> states: array<{{ELEMENT}}>;
@bind var<storage, read_write> work: array<vec4<f32>>;
#else
@bind var<storage, read> work: array<vec4<f32>>;
@bind var<storage, read_write> o: array<{{ELEMENT}}>;
#if STATES
@bind var<storage, read_write> states: array<{{ELEMENT}}>;
#endif
#endif

#if AGAIN
#import "shared/delta_load.wgsl" FN=load_state FROM=states DIM=VALUE_DIM
#else
#import "shared/delta_load.wgsl" FN=load_q FROM=q DIM=KEY_DIM
#import "shared/delta_store.wgsl" FN=store_o TO=o DIM=VALUE_DIM
#if STATES
#import "shared/delta_store.wgsl" FN=store_state TO=states DIM=VALUE_DIM
#endif
#endif
#import "shared/delta_load.wgsl" FN=load_k FROM=k DIM=KEY_DIM
#import "shared/delta_load.wgsl" FN=load_v FROM=v DIM=VALUE_DIM

const Q = {{QUADS}}u; // of columns
const ROWS = 4u * KEY4;
var<workgroup> state: array<vec4<f32>, {{STATE}}>; // [ROWS, Q]
var<workgroup> u: array<vec4<f32>, {{TILE}}>;      // [C, Q]

@compute @workgroup_size({{LANES}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let b = group.y / p.heads;
    let h = group.y % p.heads;
    let key_heads = p.heads / p.group;
    let i = lane % C; // neighbours share columns, and so what they read of the state
    let c = lane / C;
    let quad = group.x * Q + c;
    let live = quad < VALUE4;
    let column = min(quad, VALUE4 - 1u);
#if AGAIN
    let n = group.z;
#else
    for (var e = lane; e < ROWS * Q; e += {{LANES}}u) {
        state[e] = vec4<f32>();
    }
    for (var n = 0u; n < p.chunks; n++) {
#endif
    let base = (group.y * p.chunks + n) * STRIDE;
    let count = min(C, p.t - n * C);
    let start = b * p.t + n * C;
    let token = start + min(i, count - 1u);
    let own = token * key_heads + h / p.group;
    let kept = ((b * p.chunks + n) * p.heads + h) * KEY_DIM;
#if AGAIN
    for (var e = lane; e < ROWS * Q; e += {{LANES}}u) {
        var s = vec4<f32>();
        if (e / Q < KEY_DIM && group.x * Q + e % Q < VALUE4) {
            s = load_state(kept + e / Q, group.x * Q + e % Q);
        }
        state[e] = s;
    }
#endif
    workgroupBarrier();
#if STATES
    for (var e = lane; e < KEY_DIM * Q; e += {{LANES}}u) {
        if (group.x * Q + e % Q < VALUE4) {
            store_state(kept + e / Q, group.x * Q + e % Q, state[e]);
        }
    }
#endif
    var ks = vec4<f32>();
    var qs = vec4<f32>();
    for (var d = 0u; d < p.key4; d++) {
        let kd = load_k(own, d);
#if !AGAIN
        let qd = load_q(own, d);
#endif
#for X in 0..4
        {
            let s = state[(4u * d + {{X}}u) * Q + c];
            ks += kd[{{X}}] * s;
#if !AGAIN
            qs += qd[{{X}}] * s;
#endif
        }
#end
    }
    let a = number(base + A, i);
    u[i * Q + c] = number(base + BETA, i) * (load_v(token * p.heads + h, column) - a * ks);
    workgroupBarrier();
    var x = vec4<f32>();
    for (var j = 0u; j <= i / 4u; j++) {
        let t = work[base + T + i * C4 + j];
#for X in 0..4
        x += t[{{X}}] * u[(4u * j + {{X}}u) * Q + c];
#end
    }
#if AGAIN
    if (live) {
        work[base + U + i * VALUE4 + quad] = x;
    }
#else
    workgroupBarrier();
    u[i * Q + c] = x;
    workgroupBarrier();
    var out = a * qs;
    for (var j = 0u; j <= i / 4u; j++) {
        let t = work[base + P + i * C4 + j];
#for X in 0..4
        out += t[{{X}}] * u[(4u * j + {{X}}u) * Q + c];
#end
    }
    if (live && i < count) {
        store_o(token * p.heads + h, quad, out);
    }
    workgroupBarrier();
    u[i * Q + c] = number(base + B, i) * x;
    workgroupBarrier();
#import "shared/delta_carry.wgsl" LOAD=load_k OF=u
    }
#endif
}
