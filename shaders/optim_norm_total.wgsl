// The pairs of all leaves put together: norm, non-finite flag, sum of squares, and the count of skipped updates.
// Twin: (*optim.Twin).measure.
struct Params {
    leaves: u32,
    base: u32,  // place in pairs of the first
    norm: u32,  // which entry of statistics
    skips: u32, // 1 where an update with the flag is skipped and counted
}

@bind var<uniform> params: Params;
@bind var<storage, read> pairs: array<vec2<u32>>;
@bind var<storage, read_write> statistics: array<vec4<u32>>;

var<workgroup> sums: array<f32, {{LANES}}>;
var<workgroup> flags: array<u32, {{LANES}}>;

@compute @workgroup_size({{LANES}})
fn main(@builtin(local_invocation_index) lane: u32) {
    var total = 0.0;
    var flag = 0u;
    for (var i = lane; i < params.leaves; i += {{LANES}}u) {
        total += bitcast<f32>(pairs[params.base + i].x);
        flag |= pairs[params.base + i].y;
    }
    sums[lane] = total;
    flags[lane] = flag;
    workgroupBarrier();
    if (lane == 0u) {
        var sum = 0.0;
        var bad = 0u;
        for (var k = 0u; k < {{LANES}}u; k++) {
            sum += sums[k];
            bad |= flags[k];
        }
        let skipped = statistics[params.norm].w + params.skips * bad;
        statistics[params.norm] = vec4<u32>(bitcast<u32>(sqrt(sum)), bad, bitcast<u32>(sum), skipped);
    }
}
