// matmul_matrix: C[M,N] = op(A) op(B), or C += it (CONTINUE: the sums go on from C), with operands rounded to f16, or kept in it (A_HALVES, B_HALVES), and sums
// in f32, by matrix units. A workgroup makes {{TILE_M}} x {{TILE_N}} of C, {{STEP}} of K at a time; each subgroup of it {{DOWN}} x {{ACROSS}} matrices of the
// unit's shape. Tiles of operands lie in workgroup memory as the operands do; those that are contiguous along M or N may be turned round on their way in
// (A_TURNED, B_TURNED). PREFETCH: what a step multiplies was loaded a step before. TWICE: so was what it has in workgroup memory, in two buffers.
// DIRECT: whole tiles of C are stored as they are. SUMS: the first row of tiles adds up the columns of B, as ones times B; subgroups below each other share it.
// Params, forms and BLOCKS as in matmul.wgsl; RAGGED and RAGGED_OUTER as in matmul_tiled.wgsl; K_EDGE: K, or a block of it, is no multiple of a step.
// Twin: graph.MatMul.Eval of operands rounded to f16.
#import "shared/product_params.wgsl"
@bind var<uniform> p: Params;
#if A_HALVES
@bind var<storage, read> a: array<vec4<u32>>;
fn a_at(i: u32) -> vec4<u32> { return a[i]; }
#else
@bind var<storage, read> a: array<vec4<f32>>;
fn a_at(i: u32) -> vec4<f32> { return a[i]; }
#endif
#if OFFSETS
@bind var<storage, read> offsets: array<i32>; // of the rows of each expert
#endif
#import "shared/product_operands.wgsl"
#import "shared/product_result.wgsl"

var<workgroup> tile: array<vec4<u32>, {{TILE}}>; // rows of A's tile, then of B's; after the products rows of C

#import "shared/matrix.wgsl"
#import "shared/matrix_operand.wgsl" X=a TYPE={{A_TYPE}} ALONG={{A_ALONG}} EIGHT={{A_EIGHT}} PAIR={{A_PAIR}}
#import "shared/matrix_operand.wgsl" X=b TYPE={{B_TYPE}} ALONG={{B_ALONG}} EIGHT={{B_EIGHT}} PAIR={{B_PAIR}}
#import "shared/product_store.wgsl"
#import "shared/product_sums.wgsl"
#if DIRECT
#import "shared/matrix_keep.wgsl"
#endif

@compute @workgroup_size({{INVOCATIONS}}, 1, 1)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) index: u32) {
#import "shared/product_begin.wgsl"
#import "shared/product_place.wgsl" ROWS={{TILE_M}}
    let n = p.n;
    let col0 = wg.x * {{TILE_N}}u;
    matrix_lane = index % {{LANES}}u;
    let subgroup = index / {{LANES}}u;
    let down = subgroup / {{SUBGROUPS_N}}u * {{DOWN}}u * {{UNIT_M}}u; // the subgroup's rows and columns of the tile
    let across = subgroup % {{SUBGROUPS_N}}u * {{ACROSS}}u * {{UNIT_N}}u;
    let abase = p.a0 + z * p.sa;
    let bbase = p.b0 + z * p.sb;
    let cbase = p.c0 + z * p.sc;
#if SUMS
    if (index < {{UNIT_M}}u * {{UNIT_EIGHTS}}u) {
        tile[{{ONES_AT}}u + index] = vec4<u32>(0x3c003c00u); // read in each step, as registers are few
    }
#for G in 0..SUMS_OWN
    var sum{{G}} = matrix_zero();
    let sum_of{{G}} = subgroup / {{SUBGROUPS_N}}u + {{G}}u * {{SUBGROUPS_M}}u; // the matrix across, of the subgroup's
#end
    let sum_at = subgroup * {{UNIT_M}}u * {{C_PITCH}}u;
#endif
#if !DIRECT
    let own = subgroup * {{UNIT_M}}u * {{C_PITCH}}u; // the subgroup's rows of C
    let line = matrix_lane / {{C_QUADS}}u; // the invocation's first of them
    let quad = matrix_lane % {{C_QUADS}}u;
#endif
#if BLOCKS
    for (var begin = 0u; begin < p.k; begin += p.depth) {
    let end = min(p.k, begin + p.depth);
#else
#import "shared/product_along.wgsl"
#endif
#for I in 0..DOWN
#for G in 0..C_GROUPS
#for J in 0..C_GROUP
    var c{{I}}_{{G}}_{{J}} = matrix_zero();
#end
#end
#if CONTINUE
#for G in 0..C_GROUPS
#for Q in 0..C_TURNS
    {
        let e = line + {{Q}}u * {{C_LINES}}u;
        let r = row0 + down + {{I}}u * {{UNIT_M}}u + e;
        if (r < m) {
            tile[own + e * {{C_PITCH}}u + quad] = bitcast<vec4<u32>>(held(cbase + r * p.ldc, (col0 + across) / 4u + {{G}}u * {{C_QUADS}}u + quad));
        }
    }
#end
    matrix_barrier();
#for J in 0..C_GROUP
    c{{I}}_{{G}}_{{J}} = matrix_load_c(own + {{J}}u * {{UNIT_N}}u / 4u, {{C_PITCH}}u);
#end
    matrix_barrier();
#end
#endif
#end
#if CONTINUE
    workgroupBarrier();
#endif
#if A_TURNED
#import "shared/matrix_turned.wgsl" X=a PIECES={{A_PIECES}} WIDTH={{A_WIDTH}} EDGE=m FIRST=row0 BLOCKS={{A_BLOCKS}} AT=0u PITCH={{A_PITCH}}
#else
#if TRANS_A
#import "shared/matrix_across.wgsl" X=a PIECES={{A_PIECES}} EDGE=m FIRST=row0 BLOCKS={{A_BLOCKS}} AT=0u PITCH={{A_PITCH}} SIDE={{TILE_M}}
#else
#import "shared/matrix_along.wgsl" X=a PIECES={{A_PIECES}} EDGE=m FIRST=row0 BLOCKS={{A_BLOCKS}} AT=0u PITCH={{A_PITCH}}
#endif
#endif
#if B_TURNED
#import "shared/matrix_turned.wgsl" X=b PIECES={{B_PIECES}} WIDTH={{B_WIDTH}} EDGE=n FIRST=col0 BLOCKS={{B_BLOCKS}} AT={{B_AT}}u PITCH={{B_PITCH}}
#else
#if TRANS_B
#import "shared/matrix_along.wgsl" X=b PIECES={{B_PIECES}} EDGE=n FIRST=col0 BLOCKS={{B_BLOCKS}} AT={{B_AT}}u PITCH={{B_PITCH}}
#else
#import "shared/matrix_across.wgsl" X=b PIECES={{B_PIECES}} EDGE=n FIRST=col0 BLOCKS={{B_BLOCKS}} AT={{B_AT}}u PITCH={{B_PITCH}} SIDE={{TILE_N}}
#endif
#endif
#for L in 0..A_BLOCKS
#for I in 0..A_PIECES
    var a_{{L}}_{{I}}: {{A_TYPE}};
#end
#end
#for L in 0..B_BLOCKS
#for I in 0..B_PIECES
    var b_{{L}}_{{I}}: {{B_TYPE}};
#end
#end
    var into = 0u; // the buffer in workgroup memory
#if PREFETCH
    {
        let at = begin;
#import "shared/matrix_fetch.wgsl" X=a PIECES={{A_PIECES}} BLOCKS={{A_BLOCKS}} REACH={{A_REACH}} NEXT={{A_NEXT}} TYPE={{A_TYPE}} AT=at
#import "shared/matrix_fetch.wgsl" X=b PIECES={{B_PIECES}} BLOCKS={{B_BLOCKS}} REACH={{B_REACH}} NEXT={{B_NEXT}} TYPE={{B_TYPE}} AT=at
    }
#endif
#if TWICE
#import "shared/matrix_in.wgsl" TURN=first
    workgroupBarrier();
#endif
    for (var k = begin; k < end; k += {{STEP}}u) {
#if PREFETCH
#else
        let at = k;
#import "shared/matrix_fetch.wgsl" X=a PIECES={{A_PIECES}} BLOCKS={{A_BLOCKS}} REACH={{A_REACH}} NEXT={{A_NEXT}} TYPE={{A_TYPE}} AT=k
#import "shared/matrix_fetch.wgsl" X=b PIECES={{B_PIECES}} BLOCKS={{B_BLOCKS}} REACH={{B_REACH}} NEXT={{B_NEXT}} TYPE={{B_TYPE}} AT=k
#endif
#if !TWICE
#import "shared/matrix_in.wgsl" TURN=each
        workgroupBarrier();
#endif
        let here = into;
#if PREFETCH
        let at = select(k, k + {{STEP}}u, k + {{STEP}}u < end); // the last step loads once more what it has
#import "shared/matrix_fetch.wgsl" X=a PIECES={{A_PIECES}} BLOCKS={{A_BLOCKS}} REACH={{A_REACH}} NEXT={{A_NEXT}} TYPE={{A_TYPE}} AT=next
#import "shared/matrix_fetch.wgsl" X=b PIECES={{B_PIECES}} BLOCKS={{B_BLOCKS}} REACH={{B_REACH}} NEXT={{B_NEXT}} TYPE={{B_TYPE}} AT=next
#endif
#if SUMS
        if (wg.y == 0u) {
            let ones = matrix_load_a({{ONES_AT}}u, {{UNIT_EIGHTS}}u);
#for S in 0..UNIT_STEPS
#for G in 0..SUMS_OWN
            {
                let column = across + sum_of{{G}} % {{ACROSS}}u * {{UNIT_N}}u;
#if B_ROWS
                let b = matrix_load_b_rows(here + {{B_AT}}u + {{S}}u * {{UNIT_K}}u * {{B_PITCH}}u + column / 8u, {{B_PITCH}}u);
#else
                let b = matrix_load_b(here + {{B_AT}}u + column * {{B_PITCH}}u + {{S}}u * {{UNIT_K}}u / 8u, {{B_PITCH}}u);
#endif
                sum{{G}} = matrix_mul_add(ones, b, sum{{G}});
            }
#end
#end
        }
#endif
#for S in 0..UNIT_STEPS
#for I in 0..DOWN
#if A_COLUMNS
        let a{{S}}_{{I}} = matrix_load_a_columns(here + {{S}}u * {{UNIT_K}}u * {{A_PITCH}}u + (down + {{I}}u * {{UNIT_M}}u) / 8u, {{A_PITCH}}u);
#else
        let a{{S}}_{{I}} = matrix_load_a(here + (down + {{I}}u * {{UNIT_M}}u) * {{A_PITCH}}u + {{S}}u * {{UNIT_K}}u / 8u, {{A_PITCH}}u);
#endif
#end
#for G in 0..C_GROUPS
#for J in 0..C_GROUP
        {
            let column = across + ({{G}}u * {{C_GROUP}}u + {{J}}u) * {{UNIT_N}}u;
#if B_ROWS
            let b = matrix_load_b_rows(here + {{B_AT}}u + {{S}}u * {{UNIT_K}}u * {{B_PITCH}}u + column / 8u, {{B_PITCH}}u);
#else
            let b = matrix_load_b(here + {{B_AT}}u + column * {{B_PITCH}}u + {{S}}u * {{UNIT_K}}u / 8u, {{B_PITCH}}u);
#endif
#for I in 0..DOWN
            c{{I}}_{{G}}_{{J}} = matrix_mul_add(a{{S}}_{{I}}, b, c{{I}}_{{G}}_{{J}});
#end
        }
#end
#end
#end
#if TWICE
        into = {{BUFFER}}u - into;
#import "shared/matrix_in.wgsl" TURN=next
#endif
        workgroupBarrier();
    }
#if SUMS
    if (wg.y == 0u) {
#for G in 0..SUMS_OWN
        matrix_store(sum_at, {{C_PITCH}}u, sum{{G}}); // in equal rows
        matrix_barrier();
        if (sum_of{{G}} < {{ACROSS}}u && matrix_lane < {{UNIT_N}}u / 4u) {
            put_sums(cbase + p.m * p.ldc, (col0 + across + sum_of{{G}} * {{UNIT_N}}u) / 4u + matrix_lane, bitcast<vec4<f32>>(tile[sum_at + matrix_lane]));
        }
        matrix_barrier();
#end
    }
#endif
#for I in 0..DOWN
#for G in 0..C_GROUPS
#for J in 0..C_GROUP
#if DIRECT
    matrix_keep(cbase + (row0 + down + {{I}}u * {{UNIT_M}}u) * p.ldc + (col0 + across + ({{G}}u * {{C_GROUP}}u + {{J}}u) * {{UNIT_N}}u) / 4u, p.ldc, c{{I}}_{{G}}_{{J}});
#else
    matrix_store(own + {{J}}u * {{UNIT_N}}u / 4u, {{C_PITCH}}u, c{{I}}_{{G}}_{{J}});
#endif
#end
#if !DIRECT
    matrix_barrier();
#for Q in 0..C_TURNS
    {
        let e = line + {{Q}}u * {{C_LINES}}u;
        let r = row0 + down + {{I}}u * {{UNIT_M}}u + e;
        if (r < m) {
            let at = (col0 + across) / 4u + {{G}}u * {{C_QUADS}}u + quad;
#if BLOCKS
            put(cbase + r * p.ldc, at, bitcast<vec4<f32>>(tile[own + e * {{C_PITCH}}u + quad]), begin > 0u);
#else
            put(cbase + r * p.ldc, at, bitcast<vec4<f32>>(tile[own + e * {{C_PITCH}}u + quad]));
#endif
        }
    }
#end
    matrix_barrier();
#endif
#end
#end
#if BLOCKS
    workgroupBarrier();
    }
#endif
}
