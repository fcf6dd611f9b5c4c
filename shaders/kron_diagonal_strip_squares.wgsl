// Sums of squares of the gradients of matrices with one diagonal side, one a workgroup. ALIGNED: the fours of the patches are fours of the
// slab too. Twin: rootMeanSquare in kron/twin_matrix.go.
#import "shared/kron_rms.wgsl"
#import "shared/kron_strip.wgsl"

struct Params {
    shares: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> shares: array<Share>;
@bind var<storage, read> patches: array<Patch>;
#if ALIGNED
@bind var<storage, read> updates: array<vec4<f32>>;
#else
@bind var<storage, read> updates: array<f32>;
#endif
@bind var<storage, read_write> squares: array<vec4<f32>>;

var<workgroup> sums: array<vec4<f32>, 64>;

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    var sum = vec4<f32>();
    if (index < params.shares) {
        let share = shares[index];
        let p = patches[share.patch_];
        let step = place_step(p);
        var here = place_first(p, share.first + lane);
        for (var i = share.first + lane; i < place_end(p, share.first); i += 64u) {
#if ALIGNED
            if (here.row < p.longs && 4u * here.four < p.end) {
                sum = rms_join(sum, rms_of4(updates[(p.place + here.row * p.long) / 4u + here.four]));
#else
            for (var c = max(4u * here.four, p.begin); c < min(4u * here.four + 4u, p.end) && here.row < p.longs; c++) {
                sum = rms_join(sum, rms_of(updates[p.place + here.row * p.long + c * p.dense]));
#endif
            }
            here = place_next(here, p, step);
        }
    }
#import "shared/kron_sums.wgsl" COUNT=params.shares TO=shares[index].sum
}
