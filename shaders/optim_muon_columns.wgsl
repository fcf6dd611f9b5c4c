// Sums of squares of the columns of a stack of matrices, by slices of rows: an invocation takes four columns of a slice. Twin:
// (*optim.orthogonalTwin).even.
struct Params {
    vecs: u32,   // of a row, four columns each
    rows: u32,   // of a matrix
    slices: u32, // of a matrix
    total: u32,  // invocations
    first: u32,  // vec4 of the sums of the first matrix
    stride: u32, // and from slice to slice
}

@bind var<uniform> params: Params;
@bind var<storage, read> stack: array<vec4<f32>>;
@bind var<storage, read_write> sums: array<vec4<f32>>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let i = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (i >= params.total) { return; }
    let slice = i / params.vecs; // of all matrices
    let col = i - slice * params.vecs;
    let matrix = slice / params.slices;
    let row = (slice - matrix * params.slices) * {{ROWS}}u;
    var sum = vec4<f32>(0.0);
    for (var r = row; r < min(row + {{ROWS}}u, params.rows); r++) {
        let v = stack[(matrix * params.rows + r) * params.vecs + col];
        sum += v * v;
    }
    sums[params.first + slice * params.stride + col] = sum;
}
