// The largest element of T of diagonal factors in each chunk; PARTIALS: and T itself, out of partial sums, in a fixed order. Twin: rowSquares in
// kron/twin_matrix.go.
#import "shared/kron_factor.wgsl"

struct Params {
    items: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> items: array<Item>;
@bind var<storage, read_write> maxima: array<f32>;
@bind var<storage, read_write> t: array<f32>;
#if PARTIALS
@bind var<storage, read> partials: array<f32>;
#endif

var<workgroup> tops: array<f32, 64>;

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    var top = 0.0;
    if (index < params.items) {
        let item = items[index];
        for (var i = lane; i < item.count; i += 64u) {
#if PARTIALS
            var sum = 0.0;
            for (var k = 0u; k < item.sums; k++) { sum += partials[item.place + i * item.step + k * item.stride]; }
            t[4u * item.four + i] = sum;
#else
            let sum = t[4u * item.four + i];
#endif
            top = max(top, sum);
        }
    }
    tops[lane] = top;
    workgroupBarrier(); // one, and lane 0 goes through them
    if (lane == 0u && index < params.items) {
        for (var k = 1u; k < 64u; k++) { top = max(top, tops[k]); }
        maxima[items[index].chunk] = top;
    }
}
