// matmul_matrix: C[M,N] = op(A) op(B), or C += it (CONTINUE: the sums go on from C), with operands rounded to f16 and sums in f32, by matrix units. A
// workgroup makes {{TILE_M}} x {{TILE_N}} of C, {{STEP}} of K at a time; each subgroup of it {{DOWN}} x {{ACROSS}} matrices of the unit's shape. Both operands lie along K in workgroup
// memory; those that are contiguous along M or N are turned round on their way in. Params, forms and BLOCKS as in matmul.wgsl; K_EDGE:
// K, or a block of it, is no multiple of a step.
// Twin: graph.MatMul.Eval of operands rounded to f16.
#import "shared/product_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> a: array<vec4<f32>>;
fn a_at(i: u32) -> vec4<f32> { return a[i]; }
#import "shared/product_operands.wgsl"

var<workgroup> tile: array<vec4<u32>, {{TILE}}>; // rows of A, then columns of B, {{PITCH}} vec4s each; after the products the matrices of C

#import "shared/matrix.wgsl"
#import "shared/product_store.wgsl"

@compute @workgroup_size({{INVOCATIONS}}, 1, 1)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) index: u32) {
#import "shared/product_begin.wgsl"
    let m = p.m;
    let n = p.n;
    let row0 = wg.y * {{TILE_M}}u;
    let col0 = wg.x * {{TILE_N}}u;
    matrix_lane = index % {{LANES}}u;
    let subgroup = index / {{LANES}}u;
    let down = subgroup / {{SUBGROUPS_N}}u * {{DOWN}}u * {{UNIT_M}}u; // the subgroup's rows and columns of the tile
    let across = subgroup % {{SUBGROUPS_N}}u * {{ACROSS}}u * {{UNIT_N}}u;
    let own = subgroup * ({{UNIT_M}}u * {{UNIT_N}}u / 4u);
    let z = p.z0 + wg.z;
    let abase = p.a0 + z * p.sa;
    let bbase = p.b0 + z * p.sb;
    let cbase = p.c0 + z * p.sc;
#if BLOCKS
    for (var begin = 0u; begin < p.k; begin += p.depth) {
#else
    let begin = z * p.depth * p.slices;
#endif
    let end = min(p.k, begin + p.depth);
    let last = max(end, 1u) - 1u;
#for I in 0..DOWN
#for J in 0..ACROSS
    var c{{I}}_{{J}} = matrix_zero();
#if CONTINUE
#for Q in 0..UNIT_QUADS
    {
        let e = matrix_lane + {{Q}}u * {{LANES}}u;
        let r = row0 + down + {{I}}u * {{UNIT_M}}u + e / ({{UNIT_N}}u / 4u);
        if (r < m) {
            tile[own + e] = bitcast<vec4<u32>>(held(cbase + r * p.ldc, (col0 + across + {{J}}u * {{UNIT_N}}u) / 4u + e % ({{UNIT_N}}u / 4u)));
        }
    }
#end
    workgroupBarrier();
    c{{I}}_{{J}} = matrix_load_c(own, {{UNIT_N}}u / 4u);
    workgroupBarrier();
#endif
#end
#end
#if TRANS_A
#import "shared/matrix_across.wgsl" X=a EDGE=m FIRST=row0 BLOCKS=A_BLOCKS AT=0u
#else
#import "shared/matrix_along.wgsl" X=a EDGE=m FIRST=row0 BLOCKS=A_BLOCKS
#endif
#if TRANS_B
#import "shared/matrix_along.wgsl" X=b EDGE=n FIRST=col0 BLOCKS=B_BLOCKS
#else
#import "shared/matrix_across.wgsl" X=b EDGE=n FIRST=col0 BLOCKS=B_BLOCKS AT={{TILE_M}}u*{{PITCH}}u
#endif
    for (var k = begin; k < end; k += {{STEP}}u) {
#if TRANS_A
#import "shared/matrix_turn.wgsl" X=a BLOCKS=A_BLOCKS ROWS={{TILE_M}}
#else
#import "shared/matrix_copy.wgsl" X=a BLOCKS=A_BLOCKS ROWS={{TILE_M}} AT=0u
#endif
#if TRANS_B
#import "shared/matrix_copy.wgsl" X=b BLOCKS=B_BLOCKS ROWS={{TILE_N}} AT={{TILE_M}}u*{{PITCH}}u
#else
#import "shared/matrix_turn.wgsl" X=b BLOCKS=B_BLOCKS ROWS={{TILE_N}}
#endif
        workgroupBarrier();
#for S in 0..UNIT_STEPS
#for I in 0..DOWN
        let a{{S}}_{{I}} = matrix_load_a((down + {{I}}u * {{UNIT_M}}u) * {{PITCH}}u + {{S}}u * {{UNIT_K}}u / 8u, {{PITCH}}u);
#end
#for J in 0..ACROSS
        let b{{S}}_{{J}} = matrix_load_b(({{TILE_M}}u + across + {{J}}u * {{UNIT_N}}u) * {{PITCH}}u + {{S}}u * {{UNIT_K}}u / 8u, {{PITCH}}u);
#for I in 0..DOWN
        c{{I}}_{{J}} = matrix_mul_add(a{{S}}_{{I}}, b{{S}}_{{J}}, c{{I}}_{{J}});
#end
#end
#end
        workgroupBarrier();
    }
#for I in 0..DOWN
#for J in 0..ACROSS
    matrix_store(own, {{UNIT_N}}u / 4u, c{{I}}_{{J}});
    workgroupBarrier();
#for Q in 0..UNIT_QUADS
    {
        let e = matrix_lane + {{Q}}u * {{LANES}}u;
        let r = row0 + down + {{I}}u * {{UNIT_M}}u + e / ({{UNIT_N}}u / 4u);
        if (r < m) {
#if BLOCKS
            put(cbase + r * p.ldc, (col0 + across + {{J}}u * {{UNIT_N}}u) / 4u + e % ({{UNIT_N}}u / 4u), bitcast<vec4<f32>>(tile[own + e]), begin > 0u);
#else
            put(cbase + r * p.ldc, (col0 + across + {{J}}u * {{UNIT_N}}u) / 4u + e % ({{UNIT_N}}u / 4u), bitcast<vec4<f32>>(tile[own + e]));
#endif
        }
    }
#end
    workgroupBarrier();
#end
#end
#if BLOCKS
    }
#endif
}
