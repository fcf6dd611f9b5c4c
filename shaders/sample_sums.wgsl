// sample_sums: of each row and each chunk of its columns the greatest logit m and the sum of exp(scale (logit - m)). A workgroup takes a chunk of a
// row. -1e30 stands for minus infinity. sample_column goes on. Twin: graph.Sample.Eval.
#import "shared/sample.wgsl"
@bind var<storage, read> logits: array<{{ELEMENT}}>;
@bind var<storage, read> temperatures: array<f32>;
@bind var<storage, read_write> chunks: array<vec2<f32>>;

var<workgroup> handed: array<f32, {{LANES}}>;

#import "shared/sample_load.wgsl"

#import "shared/main.wgsl" LANES={{LANES}}
{
    let row = workgroup.y;
    let first = workgroup.x * CHUNK + lane;
    var most = vec4<f32>(LOWEST);
    for (var i = 0u; i < CHUNK; i += {{LANES}}u) {
        most = max(most, load(row, first + i));
    }
    handed[lane] = max(max(most.x, most.y), max(most.z, most.w));
    for (var left = {{LANES}}u / 2u; left > 0u; left /= 2u) {
        workgroupBarrier();
        if (lane < left) {
            handed[lane] = max(handed[lane], handed[lane + left]);
        }
    }
    workgroupBarrier();
    let m = handed[0];
    let scale = scale_of(temperatures[row]);
    var sum = vec4<f32>();
    for (var i = 0u; i < CHUNK; i += {{LANES}}u) {
        sum += exp((load(row, first + i) - m) * scale);
    }
    workgroupBarrier();
    handed[lane] = (sum.x + sum.y) + (sum.z + sum.w);
    for (var left = {{LANES}}u / 2u; left > 0u; left /= 2u) {
        workgroupBarrier();
        if (lane < left) {
            handed[lane] += handed[lane + left];
        }
    }
    if (lane == 0u) {
        chunks[row * workgroups.x + workgroup.x] = vec2<f32>(m, handed[0]);
    }
}
