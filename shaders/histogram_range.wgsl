// The least and the greatest finite element of each leaf of a slab, and how many are finite: a workgroup a group of elements, which never
// has two leaves. Maxima and sums of integers: their order does not matter. Twin: histogram.Of.
#import "shared/histogram.wgsl"

struct Params {
    first: u32, // of the slab's groups
    count: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> groups: array<vec4<u32>>; // first vec4 in the slab, elements, leaf, -
@bind var<storage, read> data: array<vec4<u32>>;
@bind var<storage, read_write> leaves: array<atomic<u32>>;

var<workgroup> lows: array<u32, {{LANES}}>;
var<workgroup> highs: array<u32, {{LANES}}>;
var<workgroup> counts: array<u32, {{LANES}}>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let index = workgroup.y * workgroups.x + workgroup.x;
    var group = vec4<u32>(0u);
    if (index < params.count) {
        group = groups[params.first + index];
    }
    var low = vec4<u32>(0u);
    var high = vec4<u32>(0u);
    var finite = vec4<u32>(0u);
    for (var k = lane; 4u * k < group.y; k += {{LANES}}u) {
        let bits = data[group.x + k];
        let live = histogram_live(bits, group.y - 4u * k);
        let keys = histogram_keys(bits);
        low = max(low, ~keys * live);
        high = max(high, keys * live);
        finite += live;
    }
    lows[lane] = max(max(low.x, low.y), max(low.z, low.w));
    highs[lane] = max(max(high.x, high.y), max(high.z, high.w));
    counts[lane] = finite.x + finite.y + finite.z + finite.w;
    workgroupBarrier();
    if (lane == 0u && group.y > 0u) {
        var least = 0u;
        var most = 0u;
        var all = 0u;
        for (var k = 0u; k < {{LANES}}u; k++) {
            least = max(least, lows[k]);
            most = max(most, highs[k]);
            all += counts[k];
        }
        let leaf = group.z * HISTOGRAM_WORDS;
        atomicMax(&leaves[leaf], least);
        atomicMax(&leaves[leaf + 1u], most);
        atomicAdd(&leaves[leaf + 2u], all);
    }
}
