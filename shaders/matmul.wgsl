// matmul: C[M,N] = op(A) op(B), or C += it (CONTINUE: the sums go on from C), one product or partial product a z. BLOCKS: the
// sum of each block of K is added to C, one block after the other.
// An invocation keeps ROWS = QUADS*LANES rows by 4*COLS columns of C in registers and goes along K four at a time; nothing
// goes through workgroup memory, which costs on software adapters. Loads are the bottleneck there, so the tile is large and
// each quad of columns is finished before the next one's B is loaded. Twin: graph.MatMul.Eval.
// A is [M,K] with K contiguous, or TRANS_A [K,M]; B is [K,N], or TRANS_B [N,K].
#import "shared/product_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> a: array<vec4<f32>>;
// b_at is a quad of B: of f32, or of bf16 or nf4, of which a load has several. F16: operands are rounded to f16.
#if F16
#import "shared/half.wgsl"
#endif
#if B_WHOLE
@bind var<storage, read> b: array<vec4<f32>>;
fn b_at(i: u32) -> vec4<f32> { return {{LOAD}}(b[i]); }
#endif
#if B_BF16
#import "shared/bf16.wgsl"
@bind var<storage, read> b: array<vec4<u32>>;
fn b_at(i: u32) -> vec4<f32> {
    let w = b[i / 2u];
    return {{LOAD}}(bf16_unpack4(select(w.xy, w.zw, (i & 1u) == 1u)));
}
#endif
#if B_CODES
#import "shared/codes.wgsl"
@bind var<storage, read> b: array<vec4<u32>>;
@bind var<storage, read> b_maxima: array<f32>; // of 64 elements each
fn b_at(i: u32) -> vec4<f32> { return {{LOAD}}(b_maxima[i / 16u] * {{CODES}}_levels(b[i / 8u][i / 2u % 4u] >> (16u * (i % 2u)))); }
#endif
#if STORE_SCALAR
@bind var<storage, read_write> c: array<f32>;
#else
@bind var<storage, read_write> c: array<vec4<f32>>;
#endif

@compute @workgroup_size({{WX}}, {{WY}}, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.y * ({{QUADS}}u * {{LANES}}u);
    let col = id.x * {{COLS}}u; // in vec4
    let n4 = (p.n + 3u) / 4u;
    if (row >= p.m || col >= n4) {
        return;
    }
    let z = p.z0 + id.z;
    let abase = p.a0 + z * p.sa;
    let bbase = p.b0 + z * p.sb;
#if BLOCKS
    for (var begin = 0u; begin < p.k; begin += p.depth) {
#else
    let begin = z * p.depth * p.slices;
#endif
    let end = min(p.k, begin + p.depth);
    // Rows and columns past the edge read the last ones and are not stored.
#for Q in 0..QUADS
#if TRANS_A
    let a_{{Q}} = abase + min(row / 4u + {{Q}}u, (p.m + 3u) / 4u - 1u);
#else
#for I in 0..LANES
    let a_{{Q}}_{{I}} = abase + min(row + {{Q}}u * {{LANES}}u + {{I}}u, p.m - 1u) * p.lda;
#end
#endif
#for I in 0..LANES
#for J in 0..COLS
    var c{{Q}}_{{I}}_{{J}} = vec4<f32>();
#end
#end
#end
#for J in 0..COLS
#if TRANS_B
#for I in 0..4
    let b_{{J}}_{{I}} = bbase + min(4u * (col + {{J}}u) + {{I}}u, p.n - 1u) * p.ldb;
#end
#else
    let b_{{J}} = bbase + min(col + {{J}}u, n4 - 1u);
#endif
#end
#if CONTINUE
#for Q in 0..QUADS
#for I in 0..LANES
    {
        let r = row + {{Q}}u * {{LANES}}u + {{I}}u;
        if (r < p.m) {
            let line = p.c0 + z * p.sc + r * p.ldc;
#for J in 0..COLS
#if STORE_SCALAR
#for E in 0..4
            if (4u * (col + {{J}}u) + {{E}}u < p.n) {
                c{{Q}}_{{I}}_{{J}}[{{E}}] = c[line + 4u * (col + {{J}}u) + {{E}}u];
            }
#end
#else
            if (col + {{J}}u < n4) {
                c{{Q}}_{{I}}_{{J}} = c[line + col + {{J}}u];
            }
#endif
#end
        }
    }
#end
#end
#endif
#if B_LOOP
#import "shared/packed_loop.wgsl"
#else
    for (var k = begin; k < end; k += 4u) {
        let k4 = k / 4u;
#for K in 0..4
#if K_EDGE
        let k_{{K}} = min(k + {{K}}u, p.k - 1u);
#else
        let k_{{K}} = k + {{K}}u;
#endif
#end
        // ra_q_i is along K for row i of quad q; with TRANS_A along M, a quad q, for k+i.
#for Q in 0..QUADS
#if TRANS_A
#for I in 0..4
#if K_EDGE
        let ra{{Q}}_{{I}} = select(vec4<f32>(), {{LOAD}}(a[a_{{Q}} + k_{{I}} * p.lda]), k + {{I}}u < p.k);
#else
        let ra{{Q}}_{{I}} = {{LOAD}}(a[a_{{Q}} + k_{{I}} * p.lda]);
#endif
#end
#else
#for I in 0..LANES
        let ra{{Q}}_{{I}} = {{LOAD}}(a[a_{{Q}}_{{I}} + k4]);
#end
#endif
#end
#for J in 0..COLS
#if TRANS_B
#for I in 0..4
        let t{{J}}_{{I}} = b_at(b_{{J}}_{{I}} + k4);
#end
#for K in 0..4
        let rb{{J}}_{{K}} = vec4<f32>(t{{J}}_0[{{K}}], t{{J}}_1[{{K}}], t{{J}}_2[{{K}}], t{{J}}_3[{{K}}]);
#end
#else
#for K in 0..4
        let rb{{J}}_{{K}} = b_at(b_{{J}} + k_{{K}} * p.ldb);
#end
#endif
#for Q in 0..QUADS
#for I in 0..LANES
#for K in 0..4
#if TRANS_A
        c{{Q}}_{{I}}_{{J}} += ra{{Q}}_{{K}}[{{I}}] * rb{{J}}_{{K}};
#else
        c{{Q}}_{{I}}_{{J}} += ra{{Q}}_{{I}}[{{K}}] * rb{{J}}_{{K}};
#endif
#end
#end
#end
#end
    }
#endif
    let cbase = p.c0 + z * p.sc;
#for Q in 0..QUADS
#for I in 0..LANES
    {
        let r = row + {{Q}}u * {{LANES}}u + {{I}}u;
        if (r < p.m) {
            let line = cbase + r * p.ldc;
#for J in 0..COLS
#if STORE_SCALAR
#for E in 0..4
            {
                let n = 4u * (col + {{J}}u) + {{E}}u;
                if (n < p.n) {
#if ACCUMULATE
                    c[line + n] += c{{Q}}_{{I}}_{{J}}[{{E}}];
#else
                    c[line + n] = c{{Q}}_{{I}}_{{J}}[{{E}}];
#endif
                }
            }
#end
#else
            if (col + {{J}}u < n4) {
#if ACCUMULATE
                c[line + col + {{J}}u] += c{{Q}}_{{I}}_{{J}};
#else
#if BLOCKS
                c[line + col + {{J}}u] = select(c{{Q}}_{{I}}_{{J}}, c[line + col + {{J}}u] + c{{Q}}_{{I}}_{{J}}, begin > 0u);
#else
                c[line + col + {{J}}u] = c{{Q}}_{{I}}_{{J}};
#endif
#endif
            }
#endif
#end
        }
    }
#end
#end
#if BLOCKS
    }
#endif
}
