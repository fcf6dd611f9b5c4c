// matmul_tiled: C[M,N] = op(A) op(B), or C += it, for GPUs: a workgroup of 8x8 invocations makes a 64x64 tile of C through
// workgroup memory, sixteen of K at a time; an invocation keeps 8 rows by 8 columns. Both tiles are stored k-major, in quads
// along M and N: operands that are contiguous along K are transposed in registers, 4x4 an invocation, on their way in.
// Params and forms as in matmul.wgsl. Twin: graph.MatMul.Eval.
struct Params {
    m: u32, n: u32, k: u32,
    depth: u32,
    lda: u32, ldb: u32, ldc: u32,
    slices: u32,
    a0: u32, b0: u32, c0: u32,
    z0: u32,
    sa: u32, sb: u32, sc: u32,
    pad: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
#if STORE_SCALAR
@group(0) @binding(3) var<storage, read_write> c: array<f32>;
#else
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;
#endif

// 16 rows (k) of 16 quads, one quad of padding against bank conflicts.
var<workgroup> tile_a: array<vec4<f32>, 272>;
var<workgroup> tile_b: array<vec4<f32>, 272>;

@compute @workgroup_size(8, 8, 1)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let n4 = (p.n + 3u) / 4u;
    let m4 = (p.m + 3u) / 4u;
    let row4 = wg.y * 16u; // of the tile, in quads
    let col4 = wg.x * 16u;
    let z = p.z0 + wg.z;
    let abase = p.a0 + z * p.sa;
    let bbase = p.b0 + z * p.sb;
    let begin = z * p.depth * p.slices;
    let end = min(p.k, begin + p.depth);
    // An invocation brings in four vec4 of each operand: along K, quad `slow` of four rows at k = 4*fast; else quad `lane` of
    // rows k = part, part+4, ...
    let fast = index % 4u;
    let slow = index / 4u;
    let lane = index % 16u;
    let part = index / 16u;
#for Q in 0..2
#for I in 0..4
#for J in 0..2
    var c{{Q}}_{{I}}_{{J}} = vec4<f32>();
#end
#end
#end
    for (var k = begin; k < end; k += 16u) {
#if TRANS_A
#for I in 0..4
        {
            let kk = part + {{I}}u * 4u;
            var v = vec4<f32>();
            if (k + kk < end) {
                v = a[abase + (k + kk) * p.lda + min(row4 + lane, m4 - 1u)];
            }
            tile_a[kk * 17u + lane] = v;
        }
#end
#else
        {
#for I in 0..4
            var v{{I}} = vec4<f32>();
            if (k + 4u * fast < end) {
                v{{I}} = a[abase + min(4u * (row4 + slow) + {{I}}u, p.m - 1u) * p.lda + k / 4u + fast];
            }
#end
#for I in 0..4
            tile_a[(4u * fast + {{I}}u) * 17u + slow] = vec4<f32>(v0[{{I}}], v1[{{I}}], v2[{{I}}], v3[{{I}}]);
#end
        }
#endif
#if TRANS_B
        {
#for I in 0..4
            var v{{I}} = vec4<f32>();
            if (k + 4u * fast < end) {
                v{{I}} = b[bbase + min(4u * (col4 + slow) + {{I}}u, p.n - 1u) * p.ldb + k / 4u + fast];
            }
#end
#for I in 0..4
            tile_b[(4u * fast + {{I}}u) * 17u + slow] = vec4<f32>(v0[{{I}}], v1[{{I}}], v2[{{I}}], v3[{{I}}]);
#end
        }
#else
#for I in 0..4
        {
            let kk = part + {{I}}u * 4u;
            var v = vec4<f32>();
            if (k + kk < end) {
                v = b[bbase + (k + kk) * p.ldb + min(col4 + lane, n4 - 1u)];
            }
            tile_b[kk * 17u + lane] = v;
        }
#end
#endif
        workgroupBarrier();
        for (var i = 0u; i < 16u; i++) {
#for Q in 0..2
            let ra{{Q}} = tile_a[i * 17u + local.y + {{Q}}u * 8u];
            let rb{{Q}} = tile_b[i * 17u + local.x + {{Q}}u * 8u];
#end
#for Q in 0..2
#for I in 0..4
#for J in 0..2
            c{{Q}}_{{I}}_{{J}} += ra{{Q}}[{{I}}] * rb{{J}};
#end
#end
#end
        }
        workgroupBarrier();
    }
    let cbase = p.c0 + z * p.sc;
#for Q in 0..2
#for I in 0..4
    {
        let r = 4u * (row4 + local.y + {{Q}}u * 8u) + {{I}}u;
        if (r < p.m) {
            let line = cbase + r * p.ldc;
#for J in 0..2
            {
                let col = col4 + local.x + {{J}}u * 8u;
#if STORE_SCALAR
#for E in 0..4
                if (4u * col + {{E}}u < p.n) {
#if ACCUMULATE
                    c[line + 4u * col + {{E}}u] += c{{Q}}_{{I}}_{{J}}[{{E}}];
#else
                    c[line + 4u * col + {{E}}u] = c{{Q}}_{{I}}_{{J}}[{{E}}];
#endif
                }
#end
#else
                if (col < n4) {
#if ACCUMULATE
                    c[line + col] += c{{Q}}_{{I}}_{{J}};
#else
                    c[line + col] = c{{Q}}_{{I}}_{{J}};
#endif
                }
#endif
            }
#end
        }
    }
#end
#end
}
