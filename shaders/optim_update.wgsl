// One run of elements of an optimizer's chain over one slab: u = g, or what the run before left, through the elements and
// their state; then p <- p + u, or u for the next run; or the accumulation of g alone. Twin: optim.Twin. The elements, loads and stores are put in by optim/fuse.go.
#import "shared/bf16.wgsl"
#import "shared/threefry.wgsl"
#import "shared/optim.wgsl"
#if CODED
#import "shared/dynamic8.wgsl"
#endif

struct Params {
    vecs: u32,   // of the slab, four elements each
    values: u32, // where in table the values of the leaves begin
    leaves: u32, // entries of each measurement in pairs
    stride: u32, // words of a block in table
    width: u32,  // values of a leaf
#if CODED
    first: u32,  // where in table the groups of 256 elements of a leaf begin: twice the first block, and one more if there is another
    groups: u32, // of this slab, a workgroup each
    maxima: u32, // where in a tree in eight bits the maxima begin
    plain: u32,  // where the leaves in f32; the last word of a block in table says which word of such a tree it begins with
#endif
}

// The scalars of this call, f32 bits, and last the index of the update.
struct Scalars {
    words: array<vec4<u32>, {{SCALARS}}>,
}

@bind var<uniform> params: Params;
@bind var<uniform> scalars: Scalars;
// g_data and the other trees, slab by slab; table: a few words a block of 128 elements, then the values of the leaves, then groups:
// word 0 = leaf << 8 | elements in use; then, where something is rounded at random, the key of the path and the index in the leaf of
// the block's first vec4; then, for each route, the block of the route's own trees.
{{BINDINGS}}
#import "shared/main.wgsl" LANES={{LANES}}
{
#if CODED
    let group = workgroup.y * workgroups.x + workgroup.x;
    if (group >= params.groups) { return; }
    let word = table[params.first + group];
    let second = lane >> 5u;
    let mine = second <= (word & 1u);
    let i = ((word >> 1u) + min(second, word & 1u)) * 32u + (lane & 31u);
#else
    let i = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (i >= params.vecs) { return; }
#endif
    let entry = (i >> 5u) * params.stride;
    let block = table[entry];
#if CODED
    let used = select(0, i32(block & 0xffu) - i32((i & 31u) * 4u), mine);
#else
    let used = i32(block & 0xffu) - i32((i & 31u) * 4u);
    if (used <= 0) { return; }
#endif
    let live = vec4<i32>(used) > vec4<i32>(0, 1, 2, 3);
    let values = params.values + (block >> 8u) * params.width;
{{LOADS}}
{{BODY}}
{{STORES}}
}
