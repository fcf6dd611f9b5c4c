// rows_in_order: where each row's tokens begin and, for the last row, end; then tokens that are not idle by row and by position, those at position 0
// with their highest bit set. An invocation owns a token, and a row. Twin: graph's inOrder.
struct Params {
    count: u32, // tokens
    rows: u32,
}
@bind var<uniform> params: Params;
@bind var<storage, read> row: array<i32>; // of each token, -1: idle
@bind var<storage, read> positions: array<i32>;
@bind var<storage, read_write> order: array<u32>; // [rows + 1 + count]

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.count) {
        let own = row[i];
        if (own >= 0) {
            var rank = 0u;
            for (var j = 0u; j < params.count; j++) {
                let other = row[j];
                let first = other < own || (other == own && positions[j] < positions[i]);
                rank += select(0u, 1u, first && other >= 0);
            }
            order[params.rows + 1u + rank] = i | select(0u, 0x80000000u, positions[i] == 0);
        }
    }
    if (i <= params.rows) {
        var start = params.rows + 1u;
        for (var j = 0u; j < params.count; j++) {
            start += select(0u, 1u, row[j] >= 0 && row[j] < i32(i));
        }
        order[i] = start;
    }
}
