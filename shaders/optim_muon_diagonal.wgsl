// Adds a number to the diagonals of a stack of square matrices. Twin: (*optim.orthogonalTwin).step, by a X.
struct Params {
    entries: u32, // of all diagonals
    side: u32,
    a: f32,
}

@bind var<uniform> params: Params;
@bind var<storage, read_write> stack: array<f32>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let i = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (i >= params.entries) { return; }
    let matrix = i / params.side;
    let at = i * params.side + (i - matrix * params.side);
    stack[at] = stack[at] + params.a;
}
