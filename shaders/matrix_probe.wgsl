// matrix_probe: of each subgroup C = A B^T and D = C + A B^T, with A [M,K] and B [N,K] rounded to f16, C and D [M,N], E = A^T B with B's numbers as
// [K,M] and as [K,N], and F = E * 2^(0 E), of small numbers E that f16 holds, rounded to it: what package gpu relies on where an adapter's matrix units
// are on. Twin: gpu.matrixProbe.
@bind var<storage, read> a: array<vec4<f32>>; // of one subgroup after the other
@bind var<storage, read> b: array<vec4<f32>>;
@bind var<storage, read_write> c: array<vec4<f32>>;
@bind var<storage, read_write> d: array<vec4<f32>>;
@bind var<storage, read_write> e: array<vec4<f32>>;
@bind var<storage, read_write> f: array<vec4<f32>>;

const quads_a = {{UNIT_M}}u * {{UNIT_K}}u / 4u; // of a subgroup
const quads_b = {{UNIT_N}}u * {{UNIT_K}}u / 4u;
const quads_c = {{UNIT_M}}u * {{UNIT_N}}u / 4u;
const begin_b = {{SUBGROUPS}}u * quads_a / 2u; // in the tile
const begin_c = begin_b + {{SUBGROUPS}}u * quads_b / 2u;
var<workgroup> tile: array<vec4<u32>, {{TILE}}>;

#import "shared/matrix.wgsl"
#import "shared/matrix_keep.wgsl"

@compute @workgroup_size({{INVOCATIONS}}, 1, 1)
fn main(@builtin(local_invocation_index) index: u32) {
    matrix_lane = index % {{LANES}}u;
    let subgroup = index / {{LANES}}u;
    for (var i = index; i < {{SUBGROUPS}}u * quads_a / 2u; i += {{INVOCATIONS}}u) {
        tile[i] = matrix_eight(a[2u * i], a[2u * i + 1u]);
    }
    for (var i = index; i < {{SUBGROUPS}}u * quads_b / 2u; i += {{INVOCATIONS}}u) {
        tile[begin_b + i] = matrix_eight(b[2u * i], b[2u * i + 1u]);
    }
    workgroupBarrier();
    let ma = matrix_load_a(subgroup * quads_a / 2u, {{UNIT_K}}u / 8u);
    let mb = matrix_load_b(begin_b + subgroup * quads_b / 2u, {{UNIT_K}}u / 8u);
    let product = matrix_mul_add(ma, mb, matrix_zero());
    let own = begin_c + subgroup * quads_c;
    matrix_keep(subgroup * quads_c, {{UNIT_N}}u / 4u, product);
    matrix_store(own, {{UNIT_N}}u / 4u, product);
    workgroupBarrier();
    let twice = matrix_mul_add(ma, mb, matrix_load_c(own, {{UNIT_N}}u / 4u));
    workgroupBarrier();
    matrix_store(own, {{UNIT_N}}u / 4u, twice);
    workgroupBarrier();
    for (var i = index; i < {{SUBGROUPS}}u * quads_c; i += {{INVOCATIONS}}u) {
        d[i] = bitcast<vec4<f32>>(tile[begin_c + i]);
    }
    workgroupBarrier();
    let columns = matrix_load_a_columns(begin_b + subgroup * quads_b / 2u, {{UNIT_M}}u / 8u);
    let rows = matrix_load_b_rows(begin_b + subgroup * quads_b / 2u, {{UNIT_N}}u / 8u);
    matrix_store(own, {{UNIT_N}}u / 4u, matrix_mul_add(columns, rows, matrix_zero()));
    workgroupBarrier();
    for (var i = index; i < {{SUBGROUPS}}u * quads_c; i += {{INVOCATIONS}}u) {
        e[i] = bitcast<vec4<f32>>(tile[begin_c + i]);
    }
    workgroupBarrier();
    for (var i = index; i < {{SUBGROUPS}}u * quads_c; i += {{INVOCATIONS}}u) {
        tile[begin_c + i] = bitcast<vec4<u32>>(vec4<f32>((4u * vec4<u32>(i) + vec4<u32>(0u, 1u, 2u, 3u)) * 7u % 1021u));
    }
    workgroupBarrier();
    let small = matrix_load_c(own, {{UNIT_N}}u / 4u);
    matrix_barrier();
    matrix_store_half(own, {{UNIT_N}}u / 8u, matrix_mul(matrix_exp2(small, 0.0), small));
    workgroupBarrier();
    for (var i = index; i < {{SUBGROUPS}}u * quads_c; i += {{INVOCATIONS}}u) {
        let eight = tile[begin_c + i / quads_c * quads_c + i % quads_c / 2u];
        f[i] = vec4<f32>(unpack2x16float(eight[2u * (i % 2u)]), unpack2x16float(eight[2u * (i % 2u) + 1u]));
    }
}
