// A reduction of value(i), the items of what is reduced: its params, what it reads, and how two of its items become one.
struct Params {
    count: u32,  // of results
    parts: u32,
    length: u32, // R, in items where COLUMNS is not set
    inner: u32,  // I, in items
    chunk: u32,
    part: u32,   // CUT: the first
    begin: u32,
    stop: u32,
    scale: u32,  // of the result, the bits of an f32{{NUMBERS}}
}

@bind var<uniform> params: Params;
{{BINDINGS}}
@bind var<storage, read_write> result: array<{{OUT}}>;

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

fn join(a: {{T}}, b: {{T}}) -> {{T}} {
#if MAXIMUM
    return max(a, b);
#else
    return a + b;
#endif
}
