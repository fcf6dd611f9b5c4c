// router_counts: how often each expert is chosen in each chunk of choices, by rows that count. An invocation takes a chunk and an expert. Twin:
// graph.RouterCounts.Eval.
#import "shared/group_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> ids: array<i32>;
@bind var<storage, read> counted: array<f32>;
@bind var<storage, read_write> counts: array<f32>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.chunks * p.experts) {
        return;
    }
    let first = i / p.experts * {{CHUNK}}u;
    var count = 0.0;
    for (var a = first; a < min(first + {{CHUNK}}u, p.choices); a++) {
        if (ids[a] == i32(i % p.experts)) {
            count += counted[a / p.per_row];
        }
    }
    counts[i] = count;
}
