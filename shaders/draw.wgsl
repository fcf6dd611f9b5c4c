// draw: element i of the streams of a key, to check the generator on an adapter: random words, and as f32 the uniform, the
// normal and the bfloat16 normal draw. Twin: package buffers/prng.
#import "shared/threefry.wgsl"
#import "shared/normal.wgsl"

struct Params {
    key: vec2<u32>,
    first: vec2<u32>, // index of element 0: high and low word; the low one must not wrap
    count: u32,
}

@bind var<uniform> params: Params;
// Four words an element.
@bind var<storage, read_write> out: array<vec4<u32>>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.count) {
        let bits = threefry_bits(params.key, params.first + vec2<u32>(0u, i));
        out[i] = vec4<u32>(bits, bitcast<u32>(threefry_uniform(bits)), bitcast<u32>(normal_f32(bits)),
            bitcast<u32>(normal_bf16(bits)));
    }
}
