// matrix_probe: of each subgroup C = A B^T and D = C + A B^T, with A [M,K] and B [N,K] rounded to f16, C and D [M,N], E = A^T B with B's numbers as
// [K,M] and as [K,N], F = X * 2^(0 X) rounded to f16, of numbers X many of which are on the half between two of f16, and G, which comes of E as scores of
// attention do of one block of keys after the other: what package gpu relies on where an adapter's matrix units are on. In F and G, invocations of a subgroup
// read what others of it have written, with no barrier but the subgroup's between. Twin: gpu.matrixProbe.
@bind var<storage, read> a: array<vec4<f32>>; // of one subgroup after the other
@bind var<storage, read> b: array<vec4<f32>>;
@bind var<storage, read_write> c: array<vec4<f32>>;
@bind var<storage, read_write> d: array<vec4<f32>>;
@bind var<storage, read_write> e: array<vec4<f32>>;
@bind var<storage, read_write> f: array<vec4<f32>>;
@bind var<storage, read_write> g: array<vec4<f32>>;

const quads_a = {{UNIT_M}}u * {{UNIT_K}}u / 4u; // of a subgroup
const quads_b = {{UNIT_N}}u * {{UNIT_K}}u / 4u;
const quads_c = {{UNIT_M}}u * {{UNIT_N}}u / 4u;
const begin_b = {{SUBGROUPS}}u * quads_a / 2u; // in the tile
const begin_c = begin_b + {{SUBGROUPS}}u * quads_b / 2u;
const rounds = 3u;
var<workgroup> tile: array<vec4<u32>, {{TILE}}>;

#import "shared/matrix.wgsl"
#import "shared/matrix_keep.wgsl"

// Four of X: whole numbers and halves from 1537 to 2557, every other four of them times 2^-26.
fn numbers(quad: u32) -> vec4<f32> {
    let x = 1537.0 + 0.5 * vec4<f32>((4u * vec4<u32>(quad) + vec4<u32>(0u, 1u, 2u, 3u)) * 7u % 2041u);
    return x * select(1.0, 0x1p-26, quad % 2u == 1u);
}

// Whole numbers from -8 to 7 of others.
fn wrapped(v: vec4<u32>) -> vec4<f32> {
    let x = bitcast<vec4<f32>>(v);
    return x - 16.0 * floor(x / 16.0) - 8.0;
}

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
    var scores = matrix_mul_add(columns, rows, matrix_zero());
    matrix_store(own, {{UNIT_N}}u / 4u, scores);
    workgroupBarrier();
    for (var i = index; i < {{SUBGROUPS}}u * quads_c; i += {{INVOCATIONS}}u) {
        e[i] = bitcast<vec4<f32>>(tile[begin_c + i]);
    }
    workgroupBarrier();
    // From here on invocations take what lies in memory from the end, which matrices have from the beginning: it passes between them.
    for (var n = matrix_lane; n < quads_c; n += {{LANES}}u) {
        let i = quads_c - 1u - n;
        tile[own + i] = bitcast<vec4<u32>>(numbers(subgroup * quads_c + i));
    }
    matrix_barrier();
    let x = matrix_load_c(own, {{UNIT_N}}u / 4u);
    matrix_barrier();
    matrix_store_half(own + quads_c / 2u, {{UNIT_N}}u / 8u, matrix_mul(matrix_exp2(x, 0.0), x));
    matrix_barrier();
    for (var n = matrix_lane; n < quads_c; n += {{LANES}}u) {
        let i = quads_c - 1u - n;
        let eight = tile[own + quads_c / 2u + i / 2u];
        f[subgroup * quads_c + i] = vec4<f32>(unpack2x16float(eight[2u * (i % 2u)]), unpack2x16float(eight[2u * (i % 2u) + 1u]));
    }
    matrix_barrier();
    // Scores go out, plain code makes operands of them, their products go out as halves, twice in a row, and come back as operands.
    let weights = subgroup * quads_a / 2u;
    for (var round = 0u; round < rounds; round++) {
        matrix_store(own, {{UNIT_N}}u / 4u, scores);
        matrix_barrier();
        for (var n = matrix_lane; n < quads_a / 2u; n += {{LANES}}u) {
            let i = quads_a / 2u - 1u - n;
            tile[weights + i] = matrix_eight(wrapped(tile[own + 2u * i % quads_c]), wrapped(tile[own + (2u * i + 1u) % quads_c]));
        }
        matrix_barrier();
        scores = matrix_mul_add(matrix_load_a(weights, {{UNIT_K}}u / 8u), mb, matrix_zero());
        matrix_store_half(own, {{UNIT_N}}u / 4u, scores);
        matrix_store_half(own + {{UNIT_N}}u / 8u, {{UNIT_N}}u / 4u, scores);
        matrix_barrier();
        scores = matrix_mul_add(matrix_load_a(own, {{UNIT_N}}u / 4u), mb, matrix_zero());
        matrix_barrier();
    }
    matrix_store(own, {{UNIT_N}}u / 4u, scores);
    matrix_barrier();
    for (var n = matrix_lane; n < quads_c; n += {{LANES}}u) {
        let i = quads_c - 1u - n;
        g[subgroup * quads_c + i] = bitcast<vec4<f32>>(tile[own + i]);
    }
}
