// matmul_scalar: C[M,N] = op(A) op(B), or C += it (CONTINUE: the sums go on from C), for strides and offsets that vec4 loads cannot follow: every element is
// loaded alone, 4 rows by 4 columns an invocation. Transposition is a matter of strides. Twin: graph.MatMul.Eval.
struct Params {
    m: u32, n: u32, k: u32,
    depth: u32,                  // as in matmul.wgsl
    am: u32, ak: u32,            // strides of A along M and K, in f32
    bk: u32, bn: u32,
    ldc: u32,
    slices: u32,
    a0: u32, b0: u32, c0: u32,
    z0: u32,
    sa: u32, sb: u32, sc: u32,   // strides a z
    pad0: u32, pad1: u32, pad2: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> a: array<f32>;
#if F16
#import "shared/half.wgsl"
#endif
#if B_BF16
#import "shared/bf16.wgsl"
@bind var<storage, read> b: array<u32>;
fn b_at(i: u32) -> f32 { return {{LOAD}}(bf16_unpack2(b[i / 2u])[i % 2u]); }
#else
@bind var<storage, read> b: array<f32>;
fn b_at(i: u32) -> f32 { return {{LOAD}}(b[i]); }
#endif
@bind var<storage, read_write> c: array<f32>;

@compute @workgroup_size(8, 8, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.y * 4u;
    let col = id.x * 4u;
    if (row >= p.m || col >= p.n) {
        return;
    }
    let z = p.z0 + id.z;
    let begin = z * p.depth * p.slices;
    let end = min(p.k, begin + p.depth);
#for I in 0..4
    let a_{{I}} = p.a0 + z * p.sa + min(row + {{I}}u, p.m - 1u) * p.am;
    let b_{{I}} = p.b0 + z * p.sb + min(col + {{I}}u, p.n - 1u) * p.bn;
    var c_{{I}} = vec4<f32>();
#end
#if CONTINUE
#for I in 0..4
#for J in 0..4
    if (row + {{I}}u < p.m && col + {{J}}u < p.n) {
        c_{{I}}[{{J}}] = c[p.c0 + z * p.sc + (row + {{I}}u) * p.ldc + col + {{J}}u];
    }
#end
#end
#endif
    for (var k = begin; k < end; k++) {
        let rb = vec4<f32>(b_at(b_0 + k * p.bk), b_at(b_1 + k * p.bk), b_at(b_2 + k * p.bk), b_at(b_3 + k * p.bk));
#for I in 0..4
        c_{{I}} += {{LOAD}}(a[a_{{I}} + k * p.ak]) * rb;
#end
    }
#for I in 0..4
    if (row + {{I}}u < p.m) {
        let line = p.c0 + z * p.sc + (row + {{I}}u) * p.ldc + col;
#for J in 0..4
        if (col + {{J}}u < p.n) {
#if ACCUMULATE
            c[line + {{J}}u] += c_{{I}}[{{J}}];
#else
            c[line + {{J}}u] = c_{{I}}[{{J}}];
#endif
        }
#end
    }
#end
}
