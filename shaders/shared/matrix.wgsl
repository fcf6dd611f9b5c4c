// Matrix units: a subgroup of {{LANES}} invocations adds A [{{UNIT_M}},{{UNIT_K}}] B [{{UNIT_K}},{{UNIT_N}}], whose elements are f16, to C [{{UNIT_M}},{{UNIT_N}}], whose elements are f32. All invocations
// of a subgroup call these functions together. The bodies do by plain code what a unit does, so a kernel runs everywhere. Where an adapter's units are on,
// package gpu puts their instructions in place of the calls; it knows the functions by their marks (gpu/matrix_module.go).
// In scope: `tile`, an array<vec4<u32>> in workgroup memory. Eight elements of A or B lie in a vec4, along K, or four of C, along N.
const matrix_unit = vec4<u32>({{UNIT_M}}u, {{UNIT_N}}u, {{UNIT_K}}u, {{LANES}}u);
var<private> matrix_lane: u32; // in its subgroup; main sets it

// An invocation has the row of A that its quads of C are in. Elements of B are where they lie, and are read when they are multiplied; `first` says in
// which memory.
struct MatrixA {
#for K in 0..UNIT_EIGHTS
    k{{K}}: vec4<u32>,
#end
}
struct MatrixB { at: u32, stride: u32, across: u32, first: vec4<u32> }
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

// Eight elements along K, from 8 k on, of a column of B whose rows lie next to each other, or of a row of A whose columns do.
fn matrix_turned(at: u32, stride: u32, column: u32, k: u32) -> vec4<u32> {
    var eight: vec4<u32>;
#for H in 0..4
    {
        let low = tile[at + (8u * k + 2u * {{H}}u) * stride + column / 8u][column % 8u / 2u] >> (16u * (column % 2u));
        let high = tile[at + (8u * k + 2u * {{H}}u + 1u) * stride + column / 8u][column % 8u / 2u] >> (16u * (column % 2u));
        eight[{{H}}] = (low & 0xffffu) | (high << 16u);
    }
#end
    return eight;
}

// Rows of A begin at `at`, each `stride` after the one before; columns of B and rows of C too.
fn matrix_load_a(at: u32, stride: u32) -> MatrixA {
    var mark = 0x6d78a001u;
    var a: MatrixA;
#for K in 0..UNIT_EIGHTS
    a.k{{K}} = tile[at + matrix_row(0u) * stride + {{K}}u];
#end
    return a;
}

fn matrix_load_b(at: u32, stride: u32) -> MatrixB {
    var mark = 0x6d78a002u;
    return MatrixB(at, stride, 0u, tile[at]);
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
#for K in 0..UNIT_EIGHTS
#for Q in 0..UNIT_QUADS
#for E in 0..4
    {
        let column = 4u * matrix_quad({{Q}}u) + {{E}}u;
        var y: vec4<u32>;
        if (b.across == 0u) {
            y = tile[b.at + column * b.stride + {{K}}u];
        } else {
            y = matrix_turned(b.at, b.stride, column, {{K}}u);
        }
        for (var i = 0u; i < 4u; i++) {
            let products = unpack2x16float(a.k{{K}}[i]) * unpack2x16float(y[i]);
            sum.q{{Q}}[{{E}}] += products.x;
            sum.q{{Q}}[{{E}}] += products.y;
        }
    }
#end
#end
#end
    return sum;
}

fn matrix_store(at: u32, stride: u32, c: MatrixC) {
    var mark = 0x6d78a006u;
#for Q in 0..UNIT_QUADS
    tile[at + matrix_row({{Q}}u) * stride + matrix_quad({{Q}}u)] = bitcast<vec4<u32>>(c.q{{Q}});
#end
}

// Rows of B begin at `at`, their elements next to each other.
fn matrix_load_b_rows(at: u32, stride: u32) -> MatrixB {
    var mark = 0x6d78a007u;
    return MatrixB(at, stride, 1u, tile[at]);
}

// Element by element.
fn matrix_mul(c: MatrixC, d: MatrixC) -> MatrixC {
    var mark = 0x6d78a008u;
    var r: MatrixC;
#for Q in 0..UNIT_QUADS
    r.q{{Q}} = c.q{{Q}} * d.q{{Q}};
#end
    return r;
}

// 2^(factor c) of each element.
fn matrix_exp2(c: MatrixC, factor: f32) -> MatrixC {
    var mark = 0x6d78a009u;
    var r: MatrixC;
#for Q in 0..UNIT_QUADS
    r.q{{Q}} = exp2(factor * c.q{{Q}});
#end
    return r;
}

// C rounded to f16: eight elements in a vec4, along N.
fn matrix_store_half(at: u32, stride: u32, c: MatrixC) {
    var mark = 0x6d78a00au;
#for Q in 0..UNIT_QUADS
    {
        let to = at + matrix_row({{Q}}u) * stride + matrix_quad({{Q}}u) / 2u;
        let half = 2u * (matrix_quad({{Q}}u) % 2u);
        tile[to][half] = pack2x16float(c.q{{Q}}.xy);
        tile[to][half + 1u] = pack2x16float(c.q{{Q}}.zw);
    }
#end
}

// A barrier of a subgroup's invocations; the plain body's is of the workgroup's.
fn matrix_barrier() {
    var mark = 0x6d78a00bu;
    workgroupBarrier();
}

// Columns of A begin at `at`, their elements next to each other.
fn matrix_load_a_columns(at: u32, stride: u32) -> MatrixA {
    var mark = 0x6d78a00cu;
    let first = tile[at];
    var a: MatrixA;
#for K in 0..UNIT_EIGHTS
    a.k{{K}} = matrix_turned(at, stride, matrix_row(0u), {{K}}u);
#end
    return a;
}
