// The groups of each leaf put together, a workgroup a leaf: with n, m and s of each group (histogram_bins),
//
//	mean = sum(n m) / sum(n)        squares = sum(s + n (m - mean)^2)
//
// Twin: histogram.Of.
#import "shared/histogram.wgsl"

struct Params {
    leaves: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> firsts: array<u32>; // the first group of each leaf, and behind the last
@bind var<storage, read> partials: array<vec4<u32>>;
@bind var<storage, read_write> leaves: array<u32>;

var<workgroup> sums: array<f32, {{LANES}}>;
var<workgroup> mean: f32;

fn sum_of() -> f32 {
    var sum = 0.0;
    for (var k = 0u; k < {{LANES}}u; k++) {
        sum += sums[k];
    }
    return sum;
}

#import "shared/main.wgsl" LANES={{LANES}}
{
    let leaf = workgroup.y * workgroups.x + workgroup.x;
    let words = leaf * HISTOGRAM_WORDS;
    var first = 0u;
    var end = 0u;
    if (leaf < params.leaves) {
        first = firsts[leaf];
        end = firsts[leaf + 1u];
    }
    var total = 0.0;
    for (var k = first + lane; k < end; k += {{LANES}}u) {
        total += f32(partials[k].x) * bitcast<f32>(partials[k].y);
    }
    sums[lane] = total;
    workgroupBarrier();
    if (lane == 0u && leaf < params.leaves) {
        mean = sum_of() / f32(max(leaves[words + 2u], 1u));
    }
    workgroupBarrier();
    var squares = 0.0;
    for (var k = first + lane; k < end; k += {{LANES}}u) {
        let far = bitcast<f32>(partials[k].y) - mean;
        squares += bitcast<f32>(partials[k].z) + f32(partials[k].x) * far * far;
    }
    sums[lane] = squares;
    workgroupBarrier();
    if (lane == 0u && leaf < params.leaves) {
        leaves[words + 3u] = bitcast<u32>(mean);
        leaves[words + 4u] = bitcast<u32>(sum_of());
    }
}
