// How far each diagonal factor moves in this update; -1 where it keeps every bit.
//
//     l = max T + s;  L <- max(0.95 L + 0.05 l, l);  z = share rate / L
//
// Twin: (*factor).update.
#import "shared/threefry.wgsl"
#import "shared/bf16.wgsl"
#import "shared/kron.wgsl"
#import "shared/kron_factor.wgsl"

struct Params {
    factors: u32,
    share: f32, // of the preconditioner's rate
}

@bind var<uniform> params: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> factors: array<Factor>;
@bind var<storage, read> maxima: array<f32>; // of T in each chunk
@bind var<storage, read> amplitude: array<f32>; // of each block, below 0 where it is to be left alone
@bind var<storage, read> skip: array<u32>; // word 1 is not 0: keep all state
@bind var<storage, read_write> lipschitz: array<f32>;
@bind var<storage, read_write> rates: array<f32>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.factors) {
        let factor = factors[i];
        if (skip[1] != 0u || amplitude[factor.block] < 0.0) {
            rates[i] = -1.0;
        } else {
            var top = 0.0;
            for (var k = 0u; k < factor.chunks; k++) { top = max(top, maxima[factor.first + k]); }
            let bound = top + factor.s;
            let l = max(0.95 * lipschitz[i] + 0.05 * bound, bound);
            lipschitz[i] = l;
            rates[i] = params.share * update.rate / l;
        }
    }
}
