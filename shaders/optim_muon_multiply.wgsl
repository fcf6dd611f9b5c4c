// The columns of a stack of matrices, each times its factor: an invocation takes four elements. Twin: (*optim.orthogonalTwin).even.
struct Params {
    vecs: u32,   // of a row
    rows: u32,   // of a matrix
    total: u32,  // vec4s
    first: u32,  // vec4 of the factors of the first matrix
    stride: u32, // and from matrix to matrix
}

@bind var<uniform> params: Params;
@bind var<storage, read> f: array<vec4<f32>>;
@bind var<storage, read_write> stack: array<vec4<f32>>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let i = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (i >= params.total) { return; }
    let row = i / params.vecs;
    stack[i] *= f[params.first + row / params.rows * params.stride + (i - row * params.vecs)];
}
