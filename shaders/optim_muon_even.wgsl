// The second moment of an orthogonal update along its longer side, a workgroup a matrix, with x the size that the update is scaled by:
//   v <- b v + (1-b) x² s / short          s: the sums of squares of the columns
//   f <- x |X| / max(|P|, 1e-10) / sqrt(max(v, 1e-10))          |P|² = the sum of x² s / max(v, 1e-10)
// by which the columns are multiplied next. Twin: (*optim.orthogonalTwin).even.
struct Matrix {
    long: u32, // columns in use
    slices: u32,
    first: u32, // vec4 of its sums, one slice after the other
    stride: u32,
    place: u32, // of its first v and f
    size: f32,  // x
    rest: f32,  // (1-b) over the shorter side
    unused: u32,
}

struct Params {
    matrices: u32,
    b: f32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> table: array<Matrix>;
@bind var<storage, read> sums: array<f32>;
@bind var<storage, read_write> v: array<f32>;
@bind var<storage, read_write> f: array<f32>;
#if ADAPTIVE
@bind var<storage, read> factors: array<f32>;
#endif
#if SKIP
@bind var<storage, read> flag: vec4<u32>; // word 1 not zero: v keeps every bit
#endif

var<workgroup> lane_sums: array<vec2<f32>, {{LANES}}>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let number = workgroup.y * workgroups.x + workgroup.x;
    let m = table[min(number, params.matrices - 1u)];
    let long = select(0u, m.long, number < params.matrices); // those past the end go along, as there is a barrier
    var x = m.size;
#if ADAPTIVE
    x *= factors[min(number, params.matrices - 1u)];
#endif
    var total = vec2<f32>(0.0);
    for (var k = lane; k < long; k += {{LANES}}u) {
        var s = 0.0;
        for (var i = 0u; i < m.slices; i++) { s += sums[4u * (m.first + i * m.stride) + k]; }
        s *= x * x;
        let next = params.b * v[m.place + k] + m.rest * s;
#if SKIP
        if (flag.y == 0u) { v[m.place + k] = next; }
#else
        v[m.place + k] = next;
#endif
        let root = sqrt(max(next, 1e-10));
        f[m.place + k] = 1.0 / root;
        total += vec2<f32>(s, s / (root * root));
    }
    lane_sums[lane] = total;
    workgroupBarrier();
    var all = vec2<f32>(0.0);
    for (var i = 0u; i < {{LANES}}u; i++) { all += lane_sums[i]; }
    let scale = sqrt(all.x) / max(sqrt(all.y), 1e-10);
    for (var k = lane; k < long; k += {{LANES}}u) { f[m.place + k] *= scale; }
}
