// The pair (x[i], x[i + head/2]) of each head is turned by the angle of its position: table[t, i] = (cos, sin), t the index of the row in its
// sequence, or what is said of it.
// Twin: graph.Rope.Eval.

struct Params {
    pairs: u32,     // of all rows, in items of T
    half: u32,      // of a head, in items
    heads: u32,     // a row
    positions: u32,
#if PARTIAL
    rest: u32,      // of a head, behind the pairs: it stays
#endif
}

@bind var<uniform> params: Params;
@bind var<storage, read> x: array<{{T}}>;
#if POSITIONS
@bind var<storage, read> positions: array<i32>;
#endif
@bind var<storage, read> cosines: array<{{T}}>;
@bind var<storage, read> sines: array<{{T}}>;
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
#if POSITIONS
        let position = u32(positions[head / params.heads]);
#else
        let position = (head / params.heads) % params.positions;
#endif
        let angle = position * params.half + at;
        let a = x[low];
        let b = x[high];
#if INVERSE
        y[low] = a * cosines[angle] + b * sines[angle];
        y[high] = b * cosines[angle] - a * sines[angle];
#else
        y[low] = a * cosines[angle] - b * sines[angle];
        y[high] = b * cosines[angle] + a * sines[angle];
#endif
    }
}
