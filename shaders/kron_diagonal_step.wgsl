// The step of diagonal factors:
//
//     q <- q (1 - z (T - s)), QUAD: q (1 - z (T - s))^2
//
// Twin: (*factor).update; of the rounding Config.round.
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
@bind var<storage, read> t: array<vec4<f32>>;
@bind var<storage, read> rates: array<f32>;
#import "shared/kron_kept.wgsl" NAME=q

#if DITHER
#import "shared/kron_draw.wgsl"
#endif

const largest = 1e18; // so that what never has a gradient stays finite, and its square too

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    if (index >= params.items) { return; }
    let item = items[index];
    let z = rates[item.factor];
    if (z < 0.0) { return; }
    let factor = factors[item.factor];
#if DITHER
    let key = kron_rounding_key(block_key(factor.kind, factor.stack, factor.leaf), factor.side);
#endif
    for (var i = 4u * lane; i < item.count; i += 256u) {
        let four = item.four + i / 4u;
        var w = 1.0 - z * (t[four] - factor.s);
#if QUAD
        w = w * w;
#endif
        var x = q_at(four) * w;
        x = select(x, vec4<f32>(largest), x > vec4<f32>(largest));
#if DITHER
        q[four] = bf16_join(kron_round_bits(x, key, 0u, (item.first + i) / 4u));
#else
        q_keep(four, x);
#endif
    }
}
