// Sum of squares and non-finite flag of the update u as it stands before an element of a chain, or of the parameters, over one slab: a
// pair a group of elements, which never has two leaves. Twin: (*optim.Twin).measure. The elements and loads are put in by optim/fuse.go.
// A group's words in table: first vec4, number of them, place in partials.
#import "shared/optim_slab.wgsl"
{{BINDINGS}}
var<workgroup> sums: array<f32, {{LANES}}>;
var<workgroup> flags: array<u32, {{LANES}}>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let group = workgroup.y * workgroups.x + workgroup.x;
    let words = params.first + group * 3u;
    var vecs = 0u;
    var begin = 0u;
    var total = vec4<f32>(0.0);
    var flag = 0u;
    if (group < params.groups) {
        begin = table[words];
        vecs = table[words + 1u];
        for (var k = lane; k < vecs; k += {{LANES}}u) {
            let i = begin + k;
            let entry = (i >> 5u) * params.stride;
            let block = table[entry];
            let used = i32(block & 0xffu) - i32((i & 31u) * 4u);
            let values = params.values + (block >> 8u) * params.width;
{{LOADS}}
{{BODY}}
            u = select(vec4<f32>(0.0), u, vec4<i32>(used) > vec4<i32>(0, 1, 2, 3));
            total = total + u * u;
            flag = flag | optim_nonfinite(u);
        }
    }
    sums[lane] = (total.x + total.y) + (total.z + total.w);
    flags[lane] = flag;
    workgroupBarrier(); // one, and lane 0 adds up: on software adapters a barrier costs as much as hundreds of loads
    if (lane == 0u && group < params.groups) {
        var sum = 0.0;
        var bad = 0u;
        for (var k = 0u; k < min({{LANES}}u, vecs); k++) {
            sum = sum + sums[k];
            bad = bad | flags[k];
        }
        partials[table[words + 2u]] = vec2<u32>(bitcast<u32>(sum), bad);
    }
}
