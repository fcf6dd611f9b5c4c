// delta_cached: the gated delta rule of tokens that go on with rows, token by token: S = e^g S; u = beta (v - S^T k); S += k u^T; o = S^T q. A workgroup has 64
// columns of a head of a row, an invocation a column. Twin: graph.CachedDelta.Eval.
struct Params {
    heads: u32,
    group: u32,   // value heads that share a key head
    key_dim: u32, // where loops end: what ends at a constant is unrolled, and spills
}
@bind var<uniform> p: Params;
@bind var<storage, read> order: array<u32>; // rows_in_order
@bind var<storage, read> q: array<f32>;
@bind var<storage, read> k: array<f32>;
@bind var<storage, read> v: array<f32>;
@bind var<storage, read> g: array<f32>;
@bind var<storage, read> beta: array<f32>;
@bind var<storage, read_write> state: array<f32>; // [rows, heads, KEY_DIM, VALUE_DIM]
@bind var<storage, read_write> o: array<f32>;

const KEY_DIM = {{KEY_DIM}}u;
const VALUE_DIM = {{VALUE_DIM}}u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * 64u + lane;
    let h = group.y;
    let row = group.z;
    if (column < VALUE_DIM) {
        let own = (row * p.heads + h) * KEY_DIM * VALUE_DIM + column;
        for (var at = order[row]; at < order[row + 1u]; at++) {
            let token = order[at] & 0x7fffffffu;
            let key = (token * (p.heads / p.group) + h / p.group) * KEY_DIM;
            let here = token * p.heads + h;
            var decay = exp(g[here]);
            if (token != order[at]) { // it begins the row anew
                decay = 0.0;
                for (var d = 0u; d < p.key_dim; d++) {
                    state[own + d * VALUE_DIM] = 0.0;
                }
            }
            var ks = 0.0;
            var qs = 0.0;
            var qk = 0.0;
            for (var d = 0u; d < p.key_dim; d++) {
                let s = state[own + d * VALUE_DIM];
                ks += k[key + d] * s;
                qs += q[key + d] * s;
                qk += q[key + d] * k[key + d];
            }
            let u = beta[here] * (v[here * VALUE_DIM + column] - decay * ks);
            for (var d = 0u; d < p.key_dim; d++) {
                state[own + d * VALUE_DIM] = decay * state[own + d * VALUE_DIM] + k[key + d] * u;
            }
            o[here * VALUE_DIM + column] = decay * qs + qk * u;
        }
    }
}
