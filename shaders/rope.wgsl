// y is x, each head turned by the angle of its token's position (shared/rotate.wgsl). Twin: graph.Rope.Eval.

struct Params {
    pairs: u32,     // of all rows, in items of T
    half: u32,      // of a head, in items
    per_token: u32, // heads
    positions: u32,
#if PARTIAL
    rest: u32,      // of a head, behind the pairs: it stays
#endif
}

@bind var<uniform> params: Params;
@bind var<storage, read> x: array<{{T}}>;
#import "shared/rotate.wgsl"
@bind var<storage, read_write> y: array<{{T}}>;

#import "shared/main.wgsl" LANES=64
{
    let pair = grid_index(workgroup, workgroups, lane, 64u);
    if (pair < params.pairs) {
#if PARTIAL // pairs (x[i], x[i + half]) do not fill the head
        let head = pair / (params.half + params.rest);
        let at = pair % (params.half + params.rest);
        let low = head * (2u * params.half + params.rest) + at;
        if (at >= params.half) {
            y[low + params.half] = x[low + params.half];
            return;
        }
#else
        let head = pair / params.half;
        let at = pair % params.half;
        let low = head * 2u * params.half + at;
#endif
        let high = low + params.half;
        let angle = rotation_of(head / params.per_token) + at;
        let a = x[low];
        let b = x[high];
        y[low] = rotated_low(a, b, angle);
        y[high] = rotated_high(a, b, angle);
    }
}
