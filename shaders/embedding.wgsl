// embedding: y[i] = W[ids[i]] for the ids in rows [row0, row0+rows) of W, which this part of W holds; other rows of y are left
// as they are. ELEMENT by element, or a vec4 an invocation; W in f32 or, two to a word, in bf16. Twin: graph.Embedding.Eval.
struct Params {
    count: u32, // ids
    width: u32, // of a row, in elements
    row0: u32,
    rows: u32,
}
@bind var<uniform> p: Params;
#if BF16
#import "shared/bf16.wgsl"
#if SCALAR
@bind var<storage, read> weight: array<u32>;
fn weight_at(i: u32) -> f32 { return bf16_unpack2(weight[i / 2u])[i % 2u]; }
#else
@bind var<storage, read> weight: array<vec2<u32>>;
fn weight_at(i: u32) -> vec4<f32> { return bf16_unpack4(weight[i]); }
#endif
#else
@bind var<storage, read> weight: array<{{ELEMENT}}>;
fn weight_at(i: u32) -> {{ELEMENT}} { return weight[i]; }
#endif
@bind var<storage, read> ids: array<i32>;
@bind var<storage, read_write> y: array<{{ELEMENT}}>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.count * p.width) {
        return;
    }
    let row = u32(ids[i / p.width]) - p.row0; // wraps for what lies before the part
    if (row < p.rows) {
        y[i] = weight_at(row * p.width + i % p.width);
    }
}
