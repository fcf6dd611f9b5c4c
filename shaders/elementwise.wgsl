// result[i] = value(i), or result[i] += value(i): one fused expression of elementwise operations and moves.
// Twin: the Eval of each operation in package graph, whose compiler writes BINDINGS and BODY, and the NUMBERS that it has.

struct Params {
    count: u32, // of items
    start: u32, // of the result, in its binding{{NUMBERS}}
}

@bind var<uniform> params: Params;
{{BINDINGS}}
@bind var<storage, read_write> result: array<{{T}}>;

#import "shared/functions.wgsl"
#if BF16
#import "shared/bf16.wgsl"
#endif
#if DROPOUT
#import "shared/dropout.wgsl"
#endif
#if DIVIDED
#import "shared/divided.wgsl"
#endif

fn value(i: u32) -> {{T}} {
{{BODY}}
}

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.count) {
#if ACCUMULATE
        result[i + params.start] += value(i);
#else
        result[i + params.start] = value(i);
#endif
    }
}
