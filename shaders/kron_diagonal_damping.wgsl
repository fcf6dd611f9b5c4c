// The running RMS of the gradient of each block, and the standard deviation of its noise; -1 where the block is to be left alone.
//
//     r = sqrt(mean G^2);  rms <- max(r, decay rms);  amplitude = damping rms, -1 where r is next to 0
//
// Twin: (*twinBlock).refresh.
#import "shared/kron_rms.wgsl"

struct Params {
    blocks: u32,
    damping: f32,
    decay: f32,
}

struct Block {
    first: u32, // its first sum of squares
    sums: u32,
    inverse: f32, // 1 over its elements
    unused: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> blocks: array<Block>;
@bind var<storage, read> squares: array<vec4<f32>>;
@bind var<storage, read> skip: array<u32>; // word 1 is not 0: keep all state
@bind var<storage, read_write> rms: array<f32>;
@bind var<storage, read_write> amplitude: array<f32>;

const least = 1e-15; // a gradient whose squares are next to zero is none: noise alone would make the factors grow without bound

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.blocks && skip[1] == 0u) {
        let block = blocks[i];
        var sum = vec4<f32>();
        for (var k = 0u; k < block.sums; k++) { sum = rms_join(sum, squares[block.first + k]); }
        let r = rms_root(sum, block.inverse);
        let running = max(r, params.decay * rms[i]);
        rms[i] = running;
        amplitude[i] = select(-1.0, params.damping * running, r > least);
    }
}
