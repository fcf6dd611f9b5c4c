// Counts the finite elements of each leaf of a slab in equal bins between the least and the greatest, and gives of each group of elements
// how many are finite, m = sum(x) / n and sum((x - m)^2), scaled. Twin: histogram.Of.
#import "shared/histogram.wgsl"

struct Params {
    first: u32, // of the slab's groups
    count: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> groups: array<vec4<u32>>; // first vec4 in the slab, elements, leaf, -
@bind var<storage, read> data: array<vec4<u32>>;
@bind var<storage, read_write> leaves: array<atomic<u32>>;
@bind var<storage, read_write> partials: array<vec4<u32>>;

var<workgroup> bins: array<atomic<u32>, {{BINS}}>;
var<workgroup> sums: array<f32, {{LANES}}>;
var<workgroup> counts: array<u32, {{LANES}}>;
var<workgroup> finite: u32;
var<workgroup> mean: f32;
// The least and the greatest element, scaled. They pass through memory because a compiler may take the scale out of their difference, as NVIDIA's does,
// and the difference of unscaled elements may be infinite.
var<workgroup> ends: vec2<f32>;

// sum_of is the sum of what all invocations have put in sums, in a fixed order.
fn sum_of() -> f32 {
    var sum = 0.0;
    for (var k = 0u; k < {{LANES}}u; k++) {
        sum += sums[k];
    }
    return sum;
}

#import "shared/main.wgsl" LANES={{LANES}}
{
    let index = workgroup.y * workgroups.x + workgroup.x;
    var group = vec4<u32>(0u);
    if (index < params.count) {
        group = groups[params.first + index];
    }
    let leaf = group.z * HISTOGRAM_WORDS;
    let low = histogram_bits(~atomicLoad(&leaves[leaf]));
    let high = histogram_bits(atomicLoad(&leaves[leaf + 1u]));
    let scale = histogram_scale(low, high);
    if (lane == 0u) {
        ends = vec2<f32>(bitcast<f32>(low), bitcast<f32>(high)) * scale;
    }
    for (var k = lane; k < HISTOGRAM_BINS; k += {{LANES}}u) {
        atomicStore(&bins[k], 0u);
    }
    workgroupBarrier();
    let least = ends.x;
    let range = ends.y - least;
    var rate = 0.0; // bins a unit
    if (range > 0.0) {
        rate = f32(HISTOGRAM_BINS) / range;
    }
    var sum = vec4<f32>(0.0);
    var count = vec4<u32>(0u);
    for (var k = lane; 4u * k < group.y; k += {{LANES}}u) {
        let bits = data[group.x + k];
        let live = histogram_live(bits, group.y - 4u * k);
        let x = bitcast<vec4<f32>>(bits * live) * scale;
        sum += x;
        count += live;
        let place = min(vec4<u32>(max((x - vec4<f32>(least)) * rate, vec4<f32>(0.0))), vec4<u32>(HISTOGRAM_BINS - 1u));
        atomicAdd(&bins[place.x], live.x);
        atomicAdd(&bins[place.y], live.y);
        atomicAdd(&bins[place.z], live.z);
        atomicAdd(&bins[place.w], live.w);
    }
    sums[lane] = (sum.x + sum.y) + (sum.z + sum.w);
    counts[lane] = count.x + count.y + count.z + count.w;
    workgroupBarrier();
    if (lane == 0u) {
        var all = 0u;
        for (var k = 0u; k < {{LANES}}u; k++) {
            all += counts[k];
        }
        finite = all;
        mean = sum_of() / f32(max(all, 1u));
    }
    workgroupBarrier();
    var squares = vec4<f32>(0.0);
    for (var k = lane; 4u * k < group.y; k += {{LANES}}u) {
        let bits = data[group.x + k];
        let live = histogram_live(bits, group.y - 4u * k);
        let far = (bitcast<vec4<f32>>(bits * live) * scale - vec4<f32>(mean)) * vec4<f32>(live);
        squares += far * far;
    }
    sums[lane] = (squares.x + squares.y) + (squares.z + squares.w);
    workgroupBarrier();
    if (lane == 0u && group.y > 0u) {
        partials[params.first + index] = vec4<u32>(finite, bitcast<u32>(mean), bitcast<u32>(sum_of()), 0u);
    }
    for (var k = lane; k < HISTOGRAM_BINS; k += {{LANES}}u) {
        let n = atomicLoad(&bins[k]);
        if (n > 0u) {
            atomicAdd(&leaves[leaf + HISTOGRAM_FIRST + k], n);
        }
    }
}
