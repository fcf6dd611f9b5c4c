// Strips of matrices with one diagonal side, back to a slab, times the square of the diagonal factor: u = q^2 y. ALIGNED: the fours of
// the patches are fours of the slab too. Twin: apply in kron/twin_factor.go, (*twinBlock).write.
#import "shared/kron_strip.wgsl"

struct Params {
    shares: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> shares: array<Share>;
@bind var<storage, read> patches: array<Patch>;
#import "shared/kron_fours.wgsl" NAME=q ACCESS=read
@bind var<storage, read> y: array<vec4<f32>>;
#if ALIGNED
@bind var<storage, read_write> updates: array<vec4<f32>>;
#else
@bind var<storage, read_write> updates: array<f32>;
#endif

// What a parameter may get that had no gradient for so long that its factors are as large as can be: finite, and so is its square.
const largest = 1e15;

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    if (index >= params.shares) { return; }
    let share = shares[index];
    let p = patches[share.patch_];
    let step = place_step(p);
    var here = place_first(p, share.first + lane);
    for (var i = share.first + lane; i < place_end(p, share.first); i += 64u) {
        let row = here.row;
        let four = here.four;
        if (row < p.longs && 4u * four < p.end) {
            let at = p.q + row;
            let f = q_at(at / 4u)[at % 4u];
            let v = f * (f * y[p.at + row * p.width + four]);
#if ALIGNED
            updates[(p.place + row * p.long) / 4u + four] = select(v, sign(v) * largest, abs(v) > vec4<f32>(largest));
#else
#for C in 0..4
            {
                let c = 4u * four + {{C}}u;
                if (c >= p.begin && c < p.end) {
                    updates[p.place + row * p.long + c * p.dense] = select(v[{{C}}], sign(v[{{C}}]) * largest, abs(v[{{C}}]) > largest);
                }
            }
#end
#endif
        }
        here = place_next(here, p, step);
    }
}
