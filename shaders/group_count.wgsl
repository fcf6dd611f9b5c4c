// group_count: how many choices of each chunk are of each expert. An invocation takes a chunk and an expert. group_offsets goes on.
#import "shared/group_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> ids: array<i32>;
@bind var<storage, read_write> counts: array<u32>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.chunks * p.experts) {
        return;
    }
    let first = i / p.experts * {{CHUNK}}u;
    var count = 0u;
    for (var a = first; a < min(first + {{CHUNK}}u, p.choices); a++) {
        count += select(0u, 1u, ids[a] == i32(i % p.experts));
    }
    counts[i] = count;
}
