struct Params {
    m: u32, n: u32, k: u32,      // of the whole product
    depth: u32,                  // of K a slice z: slice z covers [z*depth, (z+1)*depth) when slices is set; of K a block of BLOCKS
    lda: u32, ldb: u32, ldc: u32, // row strides in vec4 (ldc in f32 with STORE_SCALAR)
    slices: u32,                 // 0: z is a batch index; 1: z is a slice of K
    a0: u32, b0: u32, c0: u32,   // offsets, in the unit of the strides
    z0: u32,                     // of the first workgroup
    sa: u32, sb: u32, sc: u32,   // strides a z
    count: u32,                  // RAGGED: experts whose matrices B has, from z0 on; of all there are `slices`
}
