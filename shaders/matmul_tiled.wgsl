// matmul_tiled: C[M,N] = op(A) op(B), or C += it (CONTINUE: the sums go on from C), for GPUs: a workgroup of SIDE x SIDE invocations makes a square tile of C through workgroup
// memory, STEP of K at a time; an invocation keeps SPOTS quads of rows by SPOTS quads of columns. Both tiles are stored k-major, in quads along
// M and N: operands that are contiguous along K are transposed in registers, 4x4 an invocation, on their way in.
// Params, forms and BLOCKS as in matmul.wgsl. RAGGED, RAGGED_OUTER: see product_place.wgsl. SUMS: the first row of tiles adds up the columns of B. Twin: graph.MatMul.Eval, graph.RaggedMatMul.Eval,
// graph.RaggedOuter.Eval, and graph.Reduce.Eval of sums.
#import "shared/product_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> a: array<vec4<f32>>;
#if OFFSETS
@bind var<storage, read> offsets: array<i32>; // of the rows of each expert
#endif
#import "shared/product_operands.wgsl"
#import "shared/product_result.wgsl"

#import "shared/z_order.wgsl"
#import "shared/product_memory.wgsl"
#import "shared/product_raw.wgsl"

#import "shared/product_store.wgsl"
#import "shared/product_sums.wgsl"

@compute @workgroup_size({{SIDE}}, {{SIDE}}, 1)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) index: u32) {
#import "shared/product_begin.wgsl"
#import "shared/product_place.wgsl" ROWS={{TILE_M}}
    let n = p.n;
    let row4 = row0 / 4u; // of the tile, in quads
    let col4 = wg.x * {{QUADS}}u;
    let y4 = every_second(index >> 1u); // of the invocation, in the tile
    let x4 = every_second(index);
    let abase = p.a0 + z * p.sa;
    let bbase = p.b0 + z * p.sb;
#if BLOCKS
    for (var begin = 0u; begin < p.k; begin += p.depth) {
    let end = min(p.k, begin + p.depth);
#else
#import "shared/product_along.wgsl"
#endif
#for Q in 0..SPOTS
#for I in 0..4
#for J in 0..SPOTS
    var c{{Q}}_{{I}}_{{J}} = vec4<f32>();
#end
#end
#end
#if CONTINUE
#for Q in 0..SPOTS
#for I in 0..4
    {
        let r = 4u * (row4 + y4 + {{Q}}u * {{SIDE}}u) + {{I}}u;
        if (r < m) {
#for J in 0..SPOTS
            c{{Q}}_{{I}}_{{J}} = held(p.c0 + z * p.sc + r * p.ldc, col4 + x4 + {{J}}u * {{SIDE}}u);
#end
        }
    }
#end
#end
#endif
#if SUMS
    let sum_column = index % {{QUADS}}u; // of each step an invocation adds a quad of this column in every {{SUM_LINES}} K from there on
    let sum_line = index / {{QUADS}}u;
    var sum = vec4<f32>();
#endif
#import "shared/product_loop.wgsl"
    let cbase = p.c0 + z * p.sc;
#if SUMS
    if (wg.y == 0u) {
        stage_sum(sum_line, sum_column, sum);
        workgroupBarrier();
        if (index < {{QUADS}}u) {
            sum = staged(0u, 0u, index);
            for (var l = 1u; l < {{SUM_LINES}}u; l++) {
                sum += staged(0u, l, index);
            }
            put_sums(cbase + p.m * p.ldc, col4 + index, sum);
        }
    }
#endif
#for Q in 0..SPOTS
#for I in 0..4
    {
        let r = 4u * (row4 + y4 + {{Q}}u * {{SIDE}}u) + {{I}}u;
        if (r < m) {
#for J in 0..SPOTS
#if BLOCKS
            put(cbase + r * p.ldc, col4 + x4 + {{J}}u * {{SIDE}}u, c{{Q}}_{{I}}_{{J}}, begin > 0u);
#else
            put(cbase + r * p.ldc, col4 + x4 + {{J}}u * {{SIDE}}u, c{{Q}}_{{I}}_{{J}});
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
