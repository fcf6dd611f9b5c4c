// Sums by rows, w·w, w·u and u·u, of the parameters w and the update u as it stands before an element of a chain, over one slab: of a run of elements
// that lie one after another, or of each column of some lines. Twin: (*optim.Twin).rowNorms. The elements and loads are put in by optim/fuse.go.
// A group's words in table: first element, elements or lines, columns of the leaf (0: a run), place in sums, columns at hand.
#import "shared/optim_slab.wgsl"
{{BINDINGS}}
var<workgroup> row_lanes: array<vec4<f32>, {{LANES}}>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let group = workgroup.y * workgroups.x + workgroup.x;
    let known = group < params.groups;
    let words = params.first + select(0u, group, known) * 5u;
    let row_first = table[words];
    let row_count = select(0u, table[words + 1u], known);
    let row_wide = table[words + 2u];
    let row_place = table[words + 3u];
    let row_each = select(1u, 4u, (row_wide & 3u) == 0u); // columns of an invocation
    let row_mine = row_wide == 0u || lane * row_each < table[words + 4u];
    // A run is gone through by fours, and columns by lines.
    let row_steps = select(row_count, ((row_first + row_count + 3u) >> 2u) - (row_first >> 2u), row_wide == 0u);
    var row_ww = vec4<f32>(0.0);
    var row_wu = vec4<f32>(0.0);
    var row_uu = vec4<f32>(0.0);
    for (var k = select(0u, lane, row_wide == 0u); row_mine && k < row_steps; k += select(1u, {{LANES}}u, row_wide == 0u)) {
        let row_at = row_first + k * row_wide + lane * row_each;
        let i = select(row_at >> 2u, (row_first >> 2u) + k, row_wide == 0u);
        let row_elements = vec4<u32>(4u * i) + vec4<u32>(0u, 1u, 2u, 3u);
        var row_live = (row_elements >= vec4<u32>(row_first)) & (row_elements < vec4<u32>(row_first + row_count));
        if (row_wide != 0u) { row_live = (row_elements >= vec4<u32>(row_at)) & (row_elements < vec4<u32>(row_at + row_each)); }
        let entry = (i >> 5u) * params.stride;
        let block = table[entry];
        let used = i32(block & 0xffu) - i32((i & 31u) * 4u);
        let values = params.values + (block >> 8u) * params.width;
{{LOADS}}
{{BODY}}
        let row_u = select(vec4<f32>(0.0), u, row_live);
        let row_w = select(vec4<f32>(0.0), p, row_live);
        row_ww += row_w * row_w;
        row_wu += row_w * row_u;
        row_uu += row_u * row_u;
    }
    let row_sum = vec4<f32>((row_ww.x + row_ww.y) + (row_ww.z + row_ww.w), (row_wu.x + row_wu.y) + (row_wu.z + row_wu.w), (row_uu.x + row_uu.y) + (row_uu.z + row_uu.w), 0.0);
    row_lanes[lane] = row_sum;
    workgroupBarrier(); // one, and lane 0 adds up
    if (row_wide != 0u && row_mine && known) {
        if (row_each == 1u) {
            row_sums[row_place + lane] = row_sum;
        } else {
            row_sums[row_place + 4u * lane] = vec4<f32>(row_ww.x, row_wu.x, row_uu.x, 0.0);
            row_sums[row_place + 4u * lane + 1u] = vec4<f32>(row_ww.y, row_wu.y, row_uu.y, 0.0);
            row_sums[row_place + 4u * lane + 2u] = vec4<f32>(row_ww.z, row_wu.z, row_uu.z, 0.0);
            row_sums[row_place + 4u * lane + 3u] = vec4<f32>(row_ww.w, row_wu.w, row_uu.w, 0.0);
        }
    }
    if (row_wide == 0u && lane == 0u && known) {
        var row_total = vec4<f32>(0.0);
        for (var k = 0u; k < min({{LANES}}u, row_steps); k++) { row_total += row_lanes[k]; }
        row_sums[row_place] = row_total;
    }
}
