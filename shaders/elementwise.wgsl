// result[i] = value(i), or result[i] += value(i): one fused expression of elementwise operations and moves.
// Twin: the Eval of each operation in package graph, whose compiler writes BINDINGS and BODY.

{{BINDINGS}}
@bind var<storage, read_write> result: array<{{T}}>;

#import "shared/functions.wgsl"
#if BF16
#import "shared/bf16.wgsl"
#endif
#if DROPOUT
#import "shared/dropout.wgsl"
#endif

fn value(i: u32) -> {{T}} {
{{BODY}}
}

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < {{COUNT}}u) {
#if ACCUMULATE
        result[i + {{START}}u] += value(i);
#else
        result[i + {{START}}u] = value(i);
#endif
    }
}
