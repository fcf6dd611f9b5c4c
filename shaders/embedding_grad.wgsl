// embedding_grad: dW[r] = sum of the rows of dy whose id is r, or dW[r] += it, for rows [row0, row0+rows) of dW. The rows of
// dy come sorted by id, in their order: order[offsets[r]] to order[offsets[r+1]-1] are those of id r, so that the sum has one
// order. An ELEMENT an invocation. PART: dy is the rows [first, first+count) alone; CONTINUE: the sums go on from dW.
// OCCURRING, with ACCUMULATE: only the rows of the list are visited, which is as long as dy and ends with numbers beyond all rows. Twin: graph.EmbeddingGrad.Eval.
struct Params {
    width: u32, // of a row, in elements
    row0: u32,
    rows: u32,
    first: u32,
    count: u32,
    pad0: u32, pad1: u32, pad2: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> dy: array<{{ELEMENT}}>;
@bind var<storage, read> order: array<u32>;
@bind var<storage, read> offsets: array<u32>;
#if OCCURRING
@bind var<storage, read> occurring: array<u32>;
#endif
@bind var<storage, read_write> dweight: array<{{ELEMENT}}>;

#import "shared/main.wgsl" LANES=64
{
#if OCCURRING
    let item = grid_index(workgroup, workgroups, lane, 64u);
    if (item >= p.count * p.width) {
        return;
    }
    let row = occurring[item / p.width];
    let column = item % p.width;
    if (row < p.row0 || row - p.row0 >= p.rows) {
        return;
    }
    let i = (row - p.row0) * p.width + column;
#else
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.rows * p.width) {
        return;
    }
    let row = p.row0 + i / p.width;
    let column = i % p.width;
#endif
    let begin = offsets[row];
    let end = offsets[row + 1u];
#if ACCUMULATE
    if (begin == end) {
        return;
    }
#endif
#if CONTINUE
    var sum = dweight[i];
#else
    var sum = {{ELEMENT}}();
#endif
    for (var j = begin; j < end; j++) {
#if PART
        let position = order[j] - p.first; // wraps for what lies before
        if (position < p.count) {
            sum += dy[position * p.width + column];
        }
#else
        sum += dy[order[j] * p.width + column];
#endif
    }
#if ACCUMULATE
    dweight[i] += sum;
#else
    dweight[i] = sum;
#endif
}
