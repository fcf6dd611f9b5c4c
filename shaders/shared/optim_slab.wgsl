// What kernels have that an optimizer's chain is put into, over one slab: see optim/fuse.go.
#import "shared/bf16.wgsl"
#import "shared/threefry.wgsl"
#import "shared/optim.wgsl"
#if CODED
#import "shared/dynamic8.wgsl"
#endif

struct Params {
    vecs: u32,   // of the slab, four elements each
    values: u32, // where in table the values of the leaves begin
    leaves: u32, // entries of each measurement in pairs
    stride: u32, // words of a block in table
    width: u32,  // values of a leaf
    first: u32,  // where in table the groups begin
    groups: u32, // of this slab
#if CODED
    maxima: u32, // where in a tree in eight bits the maxima begin
    plain: u32,  // where the leaves in f32
#endif
}

// The scalars of this call, f32 bits, and last the index of the update.
struct Scalars {
    words: array<vec4<u32>, {{SCALARS}}>,
}

@bind var<uniform> params: Params;
@bind var<uniform> scalars: Scalars;
