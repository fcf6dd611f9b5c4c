// In updates that balance, the two factors of blocks with a diagonal side get one largest magnitude, a workgroup a block:
//
//     q <- q sqrt(l r)/l, o <- o sqrt(l r)/r,  l = max|q|, r = max|o|
//
// where q is a diagonal one and o the other, which is diagonal too, or DENSE. Twin: balance in kron/twin_block.go.
#import "shared/threefry.wgsl"
#import "shared/kron.wgsl"

struct Params {
    pairs: u32,
}

// Pair is where the two factors of a block lie, in fours.
struct Pair {
    first: u32,
    fours: u32,
    other: u32,
    others: u32,
}

@bind var<uniform> params: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> pairs: array<Pair>;
@bind var<storage, read> skip: array<u32>; // word 1 is not 0: keep all state
#import "shared/kron_kept.wgsl" NAME=q
#if DENSE
#import "shared/kron_kept.wgsl" NAME=o
#else
fn o_at(i: u32) -> vec4<f32> { return q_at(i); }
fn o_keep(i: u32, v: vec4<f32>) { q_keep(i, v); }
#endif

var<workgroup> tops: array<vec2<f32>, 64>;

fn size(v: vec4<f32>) -> f32 {
    let a = abs(v);
    return max(max(a.x, a.y), max(a.z, a.w));
}

#import "shared/main.wgsl" LANES=64
{
    if (update.balance != 0u) {
        let index = grid_index(workgroup, workgroups, 0u, 1u);
        let pair = pairs[min(index, params.pairs - 1u)];
        var top = vec2<f32>(0.0);
        for (var i = lane; i < pair.fours; i += 64u) { top.x = max(top.x, size(q_at(pair.first + i))); }
        for (var i = lane; i < pair.others; i += 64u) { top.y = max(top.y, size(o_at(pair.other + i))); }
        tops[lane] = top;
        workgroupBarrier();
        for (var k = 0u; k < 64u; k++) { top = max(top, tops[k]); }
        if (top.x > kron_tiny && top.y > kron_tiny && skip[1] == 0u && index < params.pairs) {
            // sqrt(l r) of large factors overflows, the quotient of the roots does not.
            let roots = sqrt(top);
            for (var i = lane; i < pair.fours; i += 64u) { q_keep(pair.first + i, q_at(pair.first + i) * (roots.y / roots.x)); }
            for (var i = lane; i < pair.others; i += 64u) { o_keep(pair.other + i, o_at(pair.other + i) * (roots.x / roots.y)); }
        }
    }
}
