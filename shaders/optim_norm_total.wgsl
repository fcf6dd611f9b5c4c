// The pairs of optim_norm put together: norm, non-finite flag, sum of squares, and the count of skipped updates.
// Twin: (*optim.Twin).measure.

struct Params {
    pairs: u32,
    norm: u32,  // which entry of statistics
    skips: u32, // 1 where an update with the flag is skipped and counted
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> statistics: array<vec4<u32>>;

var<workgroup> sums: array<f32, {{LANES}}>;
var<workgroup> flags: array<u32, {{LANES}}>;

@compute @workgroup_size({{LANES}})
fn main(@builtin(local_invocation_index) lane: u32) {
    var total = 0.0;
    var flag = 0u;
    for (var i = lane; i < params.pairs; i = i + {{LANES}}u) {
        let pair = partials[i];
        total = total + bitcast<f32>(pair.x);
        flag = flag | pair.y;
    }
    sums[lane] = total;
    flags[lane] = flag;
    for (var width = {{LANES}}u / 2u; width > 0u; width = width / 2u) {
        workgroupBarrier();
        if (lane < width) {
            sums[lane] = sums[lane] + sums[lane + width];
            flags[lane] = flags[lane] | flags[lane + width];
        }
    }
    if (lane == 0u) {
        let skipped = statistics[params.norm].w + params.skips * flags[0];
        statistics[params.norm] = vec4<u32>(bitcast<u32>(sqrt(sums[0])), flags[0], bitcast<u32>(sums[0]), skipped);
    }
}
