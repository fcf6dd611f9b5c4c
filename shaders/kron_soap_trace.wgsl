// kron_soap_trace: by what the covariance C of each side and its basis Q go into what the next basis is the orthogonal factor of,
// C Q / tr(C) + damping/side Q, a workgroup a matrix; and whether the basis stays: where C is next to nothing, or the flag says so.
// Twin: (*soapSide).refresh, which does not divide.
#import "shared/kron.wgsl"

struct Params {
    count: u32,
    size: u32, // of a matrix, with padding
    damping: f32,
}

@bind var<uniform> p: Params;
@bind var<storage, read> flag: vec4<u32>; // word 1 not zero: keep everything
@bind var<storage, read> sides: array<u32>; // in use, by matrix
@bind var<storage, read> c: array<f32>;
@bind var<storage, read_write> coefficients: array<vec2<f32>>;
@bind var<storage, read_write> keep: array<u32>;

var<workgroup> parts: array<f32, 64>;

#import "shared/main.wgsl" LANES=64
{
    let group = workgroup.y * workgroups.x + workgroup.x;
    let number = min(group, p.count - 1u); // those past the end go along, as there is a barrier
    var sum = 0.0;
    for (var i = lane; i < p.size; i += 64u) { sum += c[(number * p.size + i) * p.size + i]; }
    parts[lane] = sum;
    workgroupBarrier();
    if (lane == 0u && group < p.count) {
        var trace = 0.0;
        for (var i = 0u; i < 64u; i++) { trace += parts[i]; }
        let some = trace > kron_tiny;
        coefficients[number] = vec2<f32>(select(0.0, 1.0 / trace, some), p.damping / f32(sides[number]));
        keep[number] = select(1u, 0u, some && flag.y == 0u);
    }
}
