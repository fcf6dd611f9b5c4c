// combine: the sum over a row's choices, in their order, of what is laid out for them, WEIGHTED times the choice's weight. An ELEMENT an invocation.
// Twin: graph.Combine.Eval.
struct Params {
    count: u32, // elements of y
    width: u32,
    choices: u32, // of a row of y
    unused: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> laid: array<{{ELEMENT}}>;
@bind var<storage, read> slots: array<i32>;
#if WEIGHTED
@bind var<storage, read> weights: array<f32>;
#endif
@bind var<storage, read_write> y: array<{{ELEMENT}}>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.count) {
        return;
    }
    var sum = {{ELEMENT}}();
    let first = i / p.width * p.choices;
    for (var choice = first; choice < first + p.choices; choice++) {
#if WEIGHTED
        sum += weights[choice] * laid[u32(slots[choice]) * p.width + i % p.width];
#else
        sum += laid[u32(slots[choice]) * p.width + i % p.width];
#endif
    }
    y[i] = sum;
}
