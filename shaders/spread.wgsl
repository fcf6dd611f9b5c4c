// spread: rows of x laid out by the choices that a group has sorted, WEIGHTED times the choice's weight; zeros where none is. An ELEMENT an invocation.
// Twin: graph.Spread.Eval.
struct Params {
    count: u32, // elements of y
    width: u32,
    choices: u32, // of a row of x
    unused: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> x: array<{{ELEMENT}}>;
@bind var<storage, read> rows: array<i32>;
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
