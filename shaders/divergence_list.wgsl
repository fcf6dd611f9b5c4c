// divergence_list: the rows of a table for a teacher that is known by a list of tokens, over a run of the columns: t at the listed ones, LOWEST elsewhere.
// A workgroup a row. Twin: graph.HeadDivergence.Eval.
struct Params {
    rows: u32,
    columns: u32, // of this run
    stride: u32,
    column0: u32, // the first column of this run
    row0: u32,    // of the chunk, in ids and listed
    k: u32,       // listed a row
    pad0: u32, pad1: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> ids: array<f32>;
@bind var<storage, read> listed: array<f32>;
@bind var<storage, read_write> teacher: array<f32>;

#import "shared/main.wgsl" LANES=64
{
    let row = workgroup.y * workgroups.x + workgroup.x;
    if (row >= p.rows) {
        return;
    }
    for (var i = lane; i < p.columns; i += 64u) {
        teacher[row * p.stride + i] = -3.0e38;
    }
    storageBarrier();
    for (var i = lane; i < p.k; i += 64u) {
        let at = (p.row0 + row) * p.k + i;
        let column = u32(ids[at]) - p.column0;
        if (column < p.columns) {
            teacher[row * p.stride + column] = listed[at];
        }
    }
}
