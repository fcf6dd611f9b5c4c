// Matrix units: a subgroup of {{LANES}} invocations adds A [{{UNIT_M}},{{UNIT_K}}] B [{{UNIT_K}},{{UNIT_N}}], whose elements are f16, to C [{{UNIT_M}},{{UNIT_N}}], whose elements are f32. All invocations
// of a subgroup call these functions together. The bodies do by plain code what a unit does, so a kernel runs everywhere. Where an adapter's units are on,
// package gpu puts their instructions in place of the calls; it knows the functions by their marks (gpu/matrix_module.go).
// In scope: `tile`, an array<vec4<u32>> in workgroup memory. Eight elements of A or B lie in a vec4, along K, or four of C, along N.
const matrix_unit = vec4<u32>({{UNIT_M}}u, {{UNIT_N}}u, {{UNIT_K}}u, {{LANES}}u);
var<private> matrix_lane: u32; // in its subgroup; main sets it

// Elements of A or B are where they lie, and are read when they are multiplied; `first` says in which memory.
struct MatrixA { at: u32, stride: u32, first: vec4<u32> }
struct MatrixB { at: u32, stride: u32, first: vec4<u32> }
// An invocation has {{UNIT_QUADS}} quads of C, next to each other in rows.
struct MatrixC {
#for Q in 0..UNIT_QUADS
    q{{Q}}: vec4<f32>,
#end
}

// The row of C and the quad in it of an invocation's quad q.
fn matrix_row(q: u32) -> u32 { return (matrix_lane * {{UNIT_QUADS}}u + q) / ({{UNIT_N}}u / 4u); }
fn matrix_quad(q: u32) -> u32 { return (matrix_lane * {{UNIT_QUADS}}u + q) % ({{UNIT_N}}u / 4u); }

// Eight elements of A or B, rounded to f16.
fn matrix_eight(v: vec4<f32>, w: vec4<f32>) -> vec4<u32> {
    return vec4<u32>(pack2x16float(v.xy), pack2x16float(v.zw), pack2x16float(w.xy), pack2x16float(w.zw));
}

// Rows of A begin at `at`, each `stride` after the one before; columns of B and rows of C too.
fn matrix_load_a(at: u32, stride: u32) -> MatrixA {
    var mark = 0x6d78a001u;
    return MatrixA(at, stride, tile[at]);
}

fn matrix_load_b(at: u32, stride: u32) -> MatrixB {
    var mark = 0x6d78a002u;
    return MatrixB(at, stride, tile[at]);
}

fn matrix_load_c(at: u32, stride: u32) -> MatrixC {
    var mark = 0x6d78a003u;
    var c: MatrixC;
#for Q in 0..UNIT_QUADS
    c.q{{Q}} = bitcast<vec4<f32>>(tile[at + matrix_row({{Q}}u) * stride + matrix_quad({{Q}}u)]);
#end
    return c;
}

fn matrix_zero() -> MatrixC {
    var mark = 0x6d78a004u;
    return MatrixC();
}

fn matrix_mul_add(a: MatrixA, b: MatrixB, c: MatrixC) -> MatrixC {
    var mark = 0x6d78a005u;
    var sum = c;
    for (var k = 0u; k < {{UNIT_K}}u / 8u; k++) {
#for Q in 0..UNIT_QUADS
        {
            let x = tile[a.at + matrix_row({{Q}}u) * a.stride + k];
            let column = b.at + 4u * matrix_quad({{Q}}u) * b.stride + k;
#for E in 0..4
            {
                let y = tile[column + {{E}}u * b.stride];
#for H in 0..4
                {
                    let products = unpack2x16float(x[{{H}}]) * unpack2x16float(y[{{H}}]);
                    sum.q{{Q}}[{{E}}] += products.x;
                    sum.q{{Q}}[{{E}}] += products.y;
                }
#end
            }
#end
        }
#end
    }
    return sum;
}

fn matrix_store(at: u32, stride: u32, c: MatrixC) {
    var mark = 0x6d78a006u;
#for Q in 0..UNIT_QUADS
    tile[at + matrix_row({{Q}}u) * stride + matrix_quad({{Q}}u)] = bitcast<vec4<u32>>(c.q{{Q}});
#end
}
