// The pairs of optim_norm put together, one workgroup a leaf. Twin: (*optim.Twin).measure.
struct Params {
    leaves: u32,
    base: u32, // place in pairs of this measurement's first leaf
}

@bind var<uniform> params: Params;
@bind var<storage, read> firsts: array<u32>; // the first group of each leaf, and behind the last
@bind var<storage, read> partials: array<vec2<u32>>;
@bind var<storage, read_write> pairs: array<vec2<u32>>;

var<workgroup> sums: array<f32, {{LANES}}>;
var<workgroup> flags: array<u32, {{LANES}}>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let leaf = workgroup.y * workgroups.x + workgroup.x;
    var total = 0.0;
    var flag = 0u;
    if (leaf < params.leaves) {
        for (var i = firsts[leaf] + lane; i < firsts[leaf + 1u]; i += {{LANES}}u) {
            total += bitcast<f32>(partials[i].x);
            flag |= partials[i].y;
        }
    }
    sums[lane] = total;
    flags[lane] = flag;
    workgroupBarrier();
    if (lane == 0u && leaf < params.leaves) {
        var sum = 0.0;
        var bad = 0u;
        for (var k = 0u; k < min({{LANES}}u, firsts[leaf + 1u] - firsts[leaf]); k++) {
            sum += sums[k];
            bad |= flags[k];
        }
        pairs[params.base + leaf] = vec2<u32>(bitcast<u32>(sum), bad);
    }
}
