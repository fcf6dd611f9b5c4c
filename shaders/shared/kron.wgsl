// What the kernels of blocked Kronecker preconditioning share. Twins: Twin and (*twinBlock).keys in package kron.
#import "shared/bf16.wgsl"
#import "shared/threefry.wgsl"

// Update is the uniform of one update: kron.State.Prepare writes it.
struct Update {
    n: u32,       // of the update, counted from 1
    balance: u32, // 1: the factors of a block are brought to one size first
    rate: f32,    // of the preconditioner
    reserved: u32,
    // fold_in(PRNGKey(42..46), n): the dense stack, both sides diagonal, the left, the right, vectors.
    dense: vec2<u32>,
    diagonal_both: vec2<u32>,
    diagonal_left: vec2<u32>,
    diagonal_right: vec2<u32>,
    vectors: vec2<u32>,
    unused: vec2<u32>,
}

// kron_tiny is what a divisor has to be larger than.
const kron_tiny = 1e-30;

// kron_block_key is the key of a block among those that share a base key.
fn kron_block_key(base: vec2<u32>, stack: u32) -> vec2<u32> { return threefry_fold(base, stack); }

// kron_rounding_key is that of the random bits that round the factor of a side (0 left, 1 right) of the block with this key.
fn kron_rounding_key(block: vec2<u32>, side: u32) -> vec2<u32> { return threefry(block, vec2<u32>(1u, side)); }

// kron_round_bits are bfloat16 in the low halves: four numbers of a row of a factor, columns 4*quad and on, rounded at random by the
// key of their side.
fn kron_round_bits(x: vec4<f32>, key: vec2<u32>, row: u32, quad: u32) -> vec4<u32> {
    let bits = threefry(key, vec2<u32>(row, quad));
    let noise = vec4<u32>(bits.x & 0xffffu, bits.x >> 16u, bits.y & 0xffffu, bits.y >> 16u);
    return bf16_stochastic_bits(bitcast<vec4<u32>>(x), noise);
}
