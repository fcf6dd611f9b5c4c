// combine: the sum over a row's choices, in their order, of what is laid out for them, WEIGHTED times the choice's weight. An ELEMENT an invocation.
// Twin: graph.Combine.Eval.
#import "shared/choices.wgsl" FROM=laid AT=slots

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
