// L of the dense sides of blocks with one diagonal side, whether they keep every bit, and the coefficients of W Q:
//
//     l = bound + s;  L <- max(0.95 L + 0.05 l, l);  z = share rate / L;  W Q = -z T Q + (1 + z s) Q
//
// Twin: (*factor).update.
#import "shared/threefry.wgsl"
#import "shared/bf16.wgsl"
#import "shared/kron.wgsl"
#import "shared/kron_side.wgsl"

struct Params {
    count: u32,
    share: f32, // of the preconditioner's rate
}

@bind var<uniform> params: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> sides: array<Side>;
@bind var<storage, read> bounds: array<f32>;
@bind var<storage, read> amplitude: array<f32>; // of each block, below 0 where it is to be left alone
@bind var<storage, read> skip: array<u32>; // word 1 is not 0: keep all state
@bind var<storage, read_write> lipschitz: array<f32>;
@bind var<storage, read_write> coefficients: array<vec2<f32>>;
@bind var<storage, read_write> keep: array<u32>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.count) {
        let side = sides[i];
        let l = bounds[i] + side.s;
        let next = max(0.95 * lipschitz[side.place] + 0.05 * l, l);
        let z = params.share * update.rate / next;
        coefficients[i] = vec2<f32>(-z, 1.0 + z * side.s);
        if (skip[1] != 0u || amplitude[side.block] < 0.0) {
            keep[i] = 1u;
        } else {
            keep[i] = 0u;
            lipschitz[side.place] = next;
        }
    }
}
