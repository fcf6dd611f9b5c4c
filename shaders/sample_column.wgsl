// sample_column: the column that a row's uniform number falls on, and its log-probability, from what sample_sums has left. A workgroup takes a row: it finds
// the chunk, then the step of LANES quads, the quad and the column whose weights, added up in the order of columns, are the first above what is left
// of the number. Where a sum here is a rounding below that of the chunk and none is, it is the last with a weight. The weight of a chunk is its sum of
// exponentials, those in it are relative to its greatest logit. A cold draw has a weight for the greatest logit alone. Twin: graph.Sample.Eval.
#import "shared/sample.wgsl"
@bind var<storage, read> logits: array<{{ELEMENT}}>;
@bind var<storage, read> uniforms: array<f32>;
@bind var<storage, read> temperatures: array<f32>;
@bind var<storage, read> chunks: array<vec2<f32>>;
@bind var<storage, read_write> drawn: array<vec2<f32>>;

var<workgroup> maxima: array<f32, {{LANES}}>;
var<workgroup> of_chunks: array<f32, {{CHUNKS}}>;
var<workgroup> of_quads: array<f32, {{QUADS}}>; // of the chunk
var<workgroup> of_steps: array<f32, {{STEPS}}>;

#import "shared/sample_load.wgsl"

struct Found {
    at: u32,
    left: f32, // of the number, behind what comes before
}

#import "shared/sample_find.wgsl" LEVEL=of_chunks
#import "shared/sample_find.wgsl" LEVEL=of_steps
#import "shared/sample_find.wgsl" LEVEL=of_quads

#import "shared/main.wgsl" LANES={{LANES}}
{
    let row = workgroup.x;
    let is_cold = cold(temperatures[row]);
    let scale = scale_of(temperatures[row]);
    var most = LOWEST;
    for (var i = lane; i < p.chunks; i += {{LANES}}u) {
        most = max(most, chunks[row * p.chunks + i].x);
    }
    maxima[lane] = most;
    workgroupBarrier();
    for (var i = 0u; i < {{LANES}}u; i++) {
        most = max(most, maxima[i]);
    }
    for (var i = lane; i < p.chunks; i += {{LANES}}u) {
        let c = chunks[row * p.chunks + i];
        of_chunks[i] = exp((c.x - most) * scale) * c.y;
    }
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < p.chunks; i++) {
        total += of_chunks[i];
    }
    workgroupBarrier();
    if (is_cold) {
        for (var i = lane; i < p.chunks; i += {{LANES}}u) {
            of_chunks[i] = select(0.0, 1.0, chunks[row * p.chunks + i].x == most);
        }
    }
    workgroupBarrier();
    let aim = select(uniforms[row] * total, 0.0, is_cold);
    let chunk = find_of_chunks(0u, p.chunks, aim);
    let m = chunks[row * p.chunks + chunk.at].x;
    // What is left is of sums relative to the greatest logit of all.
    let left = chunk.left / exp((m - most) * scale);
    for (var i = 0u; i < STEPS; i++) {
        let w = weights(load(row, chunk.at * CHUNK + i * {{LANES}}u + lane), m, scale, is_cold);
        of_quads[i * {{LANES}}u + lane] = (w.x + w.y) + (w.z + w.w);
    }
    workgroupBarrier();
    for (var i = lane; i < STEPS; i += {{LANES}}u) {
        var sum = 0.0;
        for (var j = 0u; j < {{LANES}}u; j++) {
            sum += of_quads[i * {{LANES}}u + j];
        }
        of_steps[i] = sum;
    }
    workgroupBarrier();
    let step = find_of_steps(0u, STEPS, left);
    let quad = find_of_quads(step.at * {{LANES}}u, {{LANES}}u, step.left);
    if (lane == 0u) {
        let at = chunk.at * CHUNK + quad.at;
        let x = load(row, at);
        let w = weights(x, m, scale, is_cold);
        var column = 0u;
        var logit = x.x;
        var sum = 0.0;
#for E in 0..4
        if (w[{{E}}] > 0.0 && sum <= quad.left) {
            column = {{E}}u;
            logit = x[{{E}}];
        }
        sum += w[{{E}}];
#end
        drawn[row] = vec2<f32>(f32(at * 4u + column), (logit - most) * scale - log(total));
    }
}

// weights are those of a quad, m the greatest logit of its chunk.
fn weights(x: vec4<f32>, m: f32, scale: f32, is_cold: bool) -> vec4<f32> {
    if (is_cold) {
        return select(vec4<f32>(), vec4<f32>(1.0), x == vec4<f32>(m));
    }
    return exp((x - m) * scale);
}
