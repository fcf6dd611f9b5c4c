// spread: rows of x laid out by the choices that a group has sorted, WEIGHTED times the choice's weight; zeros where none is. An ELEMENT an invocation.
// Twin: graph.Spread.Eval.
#import "shared/choices.wgsl" FROM=x AT=rows

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.count) {
        return;
    }
    var value = {{ELEMENT}}();
    let laid = rows[i / p.width];
    if (laid > 0) {
        let choice = u32(laid - 1);
        value = x[choice / p.choices * p.width + i % p.width];
#if WEIGHTED
        value *= weights[choice];
#endif
    }
    y[i] = value;
}
