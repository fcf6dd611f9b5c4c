// matmul_slices: C[M,N] = sum over the slices of K of partial[slice,M,N] in order, or C += it. SUMS: the last row is no row of C. Twin: graph.MatMul.Eval.
struct Params {
    m: u32,
    n4: u32,     // columns in vec4, of partial
    n: u32,
    slices: u32,
    c0: u32,     // offset and row stride of C, in vec4 (in f32 with STORE_SCALAR)
    ldc: u32,
    pad0: u32, pad1: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> partial: array<vec4<f32>>;
#import "shared/product_result.wgsl"
#import "shared/product_sums.wgsl"

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.m * p.n4) {
        return;
    }
    var sum = partial[i];
    for (var s = 1u; s < p.slices; s++) {
        sum += partial[s * p.m * p.n4 + i];
    }
    let row = i / p.n4;
    let col = i % p.n4;
#if SUMS
    if (row == p.m - 1u) {
        put_sums(0u, col, sum);
        return;
    }
#endif
#if STORE_SCALAR
    let line = p.c0 + row * p.ldc + 4u * col;
#for E in 0..4
    if (4u * col + {{E}}u < p.n) {
#if ACCUMULATE
        c[line + {{E}}u] += sum[{{E}}];
#else
        c[line + {{E}}u] = sum[{{E}}];
#endif
    }
#end
#else
#if EPILOGUE
    finish(p.c0 + row * p.ldc + col, sum);
#else
#if ACCUMULATE
    c[p.c0 + row * p.ldc + col] += sum;
#else
    c[p.c0 + row * p.ldc + col] = sum;
#endif
#endif
#endif
}
