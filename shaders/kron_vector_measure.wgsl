// What the factors of vectors follow, and its largest element in each chunk:
//
//     T = P^2,  P = q^2 (G + N)
//
// Twin: (*twinBlock).refresh, (*factor).update.
#import "shared/threefry.wgsl"
#import "shared/kron.wgsl"
#import "shared/kron_factor.wgsl"

struct Params {
    items: u32,
}

@bind var<uniform> params: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> items: array<Item>;
@bind var<storage, read> factors: array<Factor>;
@bind var<storage, read> updates: array<f32>;
@bind var<storage, read> amplitude: array<f32>; // of the noise of each block
#import "shared/kron_fours.wgsl" NAME=q ACCESS=read
@bind var<storage, read_write> t: array<vec4<f32>>;
@bind var<storage, read_write> maxima: array<f32>;

#if NOISE
#import "shared/kron_draw.wgsl"
#endif

const largest = vec4<f32>(1e15); // what has a square in f32

var<workgroup> tops: array<f32, 64>;

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    var top = 0.0;
    if (index < params.items) {
        let item = items[index];
        let factor = factors[item.factor];
#if NOISE
        let scale = amplitude[factor.block];
        let key = block_key(factor.kind, factor.stack, factor.leaf);
#endif
        for (var i = 4u * lane; i < item.count; i += 256u) {
            let live = vec4<u32>(item.count - i) > vec4<u32>(0u, 1u, 2u, 3u);
            var x = vec4<f32>(0.0);
#for K in 0..4
            if (live[{{K}}]) {
                x[{{K}}] = updates[item.place + i + {{K}}u];
#if NOISE
                x[{{K}}] += scale * draw(key, item.first + i + {{K}}u);
#endif
            }
#end
            let four = item.four + i / 4u;
            let f = q_at(four);
            let p = clamp(f * (f * x), -largest, largest);
            let squares = p * p;
            t[four] = squares;
            top = max(top, max(max(squares.x, squares.y), max(squares.z, squares.w)));
        }
    }
    tops[lane] = top;
    workgroupBarrier(); // one, and lane 0 goes through them: on software adapters a barrier costs as much as hundreds of loads
    if (lane == 0u && index < params.items) {
        for (var k = 1u; k < 64u; k++) { top = max(top, tops[k]); }
        maxima[items[index].chunk] = top;
    }
}
