// ragged_matmul: y = x w, the rows of a tile by the matrix of their expert: w [inner, outer] of each, or TRANS [outer, inner]. A workgroup takes a tile of TILE
// rows and 64 columns. A part of w has the experts from first on, count of them; the one with the first of all writes the rows of no expert, which are zeros.
// WIDE: rows of w are whole quads, which are read as they are kept: f32, bf16 or codes. F16: operands are rounded to f16.
// Twin: graph.RaggedMatMul.Eval.
struct Params {
    inner: u32,
    outer: u32,
    experts: u32,
    first: u32,
    count: u32,
    tiles: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> x: array<f32>;
@bind var<storage, read> offsets: array<i32>;
#if WIDE
#import "shared/product_operands.wgsl"
#else
#if F16
#import "shared/half.wgsl"
#endif
@bind var<storage, read> b: array<f32>;
#endif
@bind var<storage, read_write> y: array<f32>;

const STEP = 16u;
var<workgroup> rows: array<vec4<f32>, {{STAGED}}>; // [step, quads of rows]
#if TRANS
var<workgroup> columns: array<f32, 1088>; // [64, 17]
#else
#if WIDE
var<workgroup> columns: array<f32, 1088>; // [16, 68]
#endif
#endif

// expert_of is the expert of a row; experts: it is of none.
fn expert_of(row: i32) -> u32 {
    var low = 0u;
    var high = p.experts;
    while (low < high) { // the first that ends behind the row
        let middle = (low + high) / 2u;
        if (offsets[middle + 1u] > row) {
            high = middle;
        } else {
            low = middle + 1u;
        }
    }
    return low;
}

#import "shared/main.wgsl" LANES=64
{
#if WIDE
    let index = lane;
#import "shared/product_begin.wgsl"
#endif
    let tile = workgroup.x;
    let column = workgroup.y * 64u + lane;
    let row = tile * {{TILE}}u;
    let expert = expert_of(i32(row));
    let here = expert - p.first; // wraps for what lies before the part
    var steps = p.inner;
    if (here >= p.count) {
        steps = 0u;
    }
#for Q in 0..QUADS
    var sum{{Q}} = vec4<f32>();
#end
    for (var k = 0u; k < steps; k += STEP) {
        if (lane < {{STAGED}}u) {
            let at = k + lane % STEP;
            let start = (row + lane / STEP * 4u) * p.inner + at;
            var quad = vec4<f32>();
            if (at < p.inner) {
                quad = {{LOAD_X}}(vec4<f32>(x[start], x[start + p.inner], x[start + 2u * p.inner], x[start + 3u * p.inner]));
            }
            rows[lane % STEP * {{QUADS}}u + lane / STEP] = quad;
        }
#if WIDE
        for (var i = lane; i < 16u * STEP; i += 64u) {
#if TRANS
            let at = k + i % 4u * 4u;
            let into = workgroup.y * 64u + i / 4u;
            let quads = (here * p.outer + into) * (p.inner / 4u) + at / 4u;
            let place = i / 4u * 17u + i % 4u * 4u;
#else
            let at = k + i / 16u;
            let into = workgroup.y * 64u + i % 16u * 4u;
            let quads = (here * p.inner + at) * (p.outer / 4u) + into / 4u;
            let place = i / 16u * 68u + i % 16u * 4u;
#endif
            var quad = vec4<f32>();
            if (at < p.inner && into < p.outer) {
                quad = b_at(quads);
            }
#for I in 0..4
            columns[place + {{I}}u] = quad[{{I}}];
#end
        }
#else
#if TRANS
        for (var i = lane; i < 64u * STEP; i += 64u) {
            let at = k + i % STEP;
            let into = workgroup.y * 64u + i / STEP;
            var value = 0.0;
            if (at < p.inner && into < p.outer) {
                value = {{LOAD}}(b[(here * p.outer + into) * p.inner + at]);
            }
            columns[i / STEP * 17u + i % STEP] = value;
        }
#endif
#endif
        workgroupBarrier();
        for (var i = 0u; i < min(STEP, p.inner - k); i++) {
#if TRANS
            let value = columns[lane * 17u + i];
#else
#if WIDE
            let value = columns[i * 68u + lane];
#else
            var value = 0.0;
            if (column < p.outer) {
                value = {{LOAD}}(b[(here * p.inner + k + i) * p.outer + column]);
            }
#endif
#endif
#for Q in 0..QUADS
            sum{{Q}} += value * rows[i * {{QUADS}}u + {{Q}}u];
#end
        }
        workgroupBarrier();
    }
    if (column < p.outer && (here < p.count || (expert == p.experts && p.first == 0u))) {
#for Q in 0..QUADS
#for I in 0..4
        y[(row + {{Q}}u * 4u + {{I}}u) * p.outer + column] = sum{{Q}}[{{I}}];
#end
#end
    }
}
