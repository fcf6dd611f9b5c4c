// kron_begin: what comes before a refresh of the dense blocks, a workgroup a block: whether their state keeps every bit, and in updates
// that balance, Ql <- Ql sqrt(l r)/l and Qr <- Qr sqrt(l r)/r with l = max|Ql|, r = max|Qr|. RMS: the running RMS of the gradient,
// rms <- max(RMS(G), decay rms), and the standard deviation of the noise, damping rms; a block with next to no gradient keeps its
// state.
// Twins: balance and (*twinBlock).refresh.
#import "shared/bf16.wgsl"
#import "shared/threefry.wgsl"
#import "shared/kron.wgsl"
#import "shared/kron_spot.wgsl"

struct Params {
    count: u32, // of blocks
    damping: f32,
    decay: f32,
}

@bind var<uniform> p: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> spots: array<Spot>;
@bind var<storage, read> flag: vec4<u32>; // word 1 not zero: keep everything
@bind var<storage, read_write> q: array<{{Q_TYPE}}>;
@bind var<storage, read_write> keep: array<u32>; // by side
#if RMS
@bind var<storage, read> g: array<vec4<f32>>;
@bind var<storage, read_write> rms: array<f32>;
@bind var<storage, read_write> deviation: array<f32>;
#endif

const lanes = {{LANES}}u;
var<workgroup> parts: array<vec4<f32>, {{LANES}}>;

fn largest(v: vec4<f32>) -> f32 {
    let a = abs(v);
    return max(max(a.x, a.y), max(a.z, a.w));
}

fn total(v: vec4<f32>) -> f32 { return (v.x + v.y) + (v.z + v.w); }

#import "shared/main.wgsl" LANES={{LANES}}
{
    let number = workgroup.y * workgroups.x + workgroup.x;
    let here = number < p.count; // those past the end go along, as there are barriers
    let spot = spots[min(number, p.count - 1u)];
    let skip = flag.y != 0u || !here;
#if RMS
    // Squares of numbers from 1e-32 to 1e32 need three scales.
    var size = 0.0;
    var sums = vec3<f32>();
    for (var i = lane; i < spot.quads; i += lanes) {
        let v = g[spot.at + i];
        let low = v * 0x1p-64;
        let high = v * 0x1p+64;
        size = max(size, largest(v));
        sums += vec3<f32>(total(low * low), total(v * v), total(high * high));
    }
    parts[lane] = vec4<f32>(sums, size);
    workgroupBarrier();
    if (lane == 0u) {
        for (var i = 1u; i < lanes; i++) {
            sums += parts[i].xyz;
            size = max(size, parts[i].w);
        }
        let count = f32(spot.rows * spot.cols);
        var r = sqrt(sums.y / count);
        if (size > 0x1p+40) { r = sqrt(sums.x / count) * 0x1p+64; }
        if (size < 0x1p-40) { r = sqrt(sums.z / count) * 0x1p-64; }
        if (here) {
            let next = max(r, p.decay * rms[number]);
            let still = skip || !(r * r > kron_tiny);
            keep[spot.left] = select(0u, 1u, still);
            keep[spot.right] = select(0u, 1u, still);
            if (!skip) { rms[number] = next; }
            deviation[number] = p.damping * next;
        }
#else
    if (lane == 0u && here) {
        keep[spot.left] = select(0u, 1u, skip);
        keep[spot.right] = select(0u, 1u, skip);
#endif
    }
    if (update.balance != 0u) {
        workgroupBarrier();
        var l = 0.0;
        var r = 0.0;
        for (var i = lane; i < spot.left_quads; i += lanes) { l = max(l, largest({{Q_LOAD}}(q[spot.left_at + i]))); }
        for (var i = lane; i < spot.right_quads; i += lanes) { r = max(r, largest({{Q_LOAD}}(q[spot.right_at + i]))); }
        parts[lane] = vec4<f32>(l, r, 0.0, 0.0);
        workgroupBarrier();
        for (var i = 0u; i < lanes; i++) {
            l = max(l, parts[i].x);
            r = max(r, parts[i].y);
        }
        if (l > kron_tiny && r > kron_tiny && !skip) {
            // sqrt(l r) of large factors overflows, the quotient of the roots does not.
            let scale = sqrt(r) / sqrt(l);
            let other = sqrt(l) / sqrt(r);
            for (var i = lane; i < spot.left_quads; i += lanes) {
                q[spot.left_at + i] = {{Q_STORE}}({{Q_LOAD}}(q[spot.left_at + i]) * scale);
            }
            for (var i = lane; i < spot.right_quads; i += lanes) {
                q[spot.right_at + i] = {{Q_STORE}}({{Q_LOAD}}(q[spot.right_at + i]) * other);
            }
        }
    }
}
