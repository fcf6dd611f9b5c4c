// One level of a sum or maximum over the middle axis of [O, R, I]; twin: graph.Reduce.Eval. An invocation reduces a fixed part
// of R, so the result has the same bits on every run; more levels follow until one part is left.
// COLUMNS (I > 1): result[o,p,i] = reduction of value(o,r,i) over r in [p CHUNK, (p+1) CHUNK), i in items of T.
//   CUT: of rows [FROM, TO) of R alone, which are all that value has; a part that FROM cuts goes on from result.
// else (I = 1): result[o,p] = reduction of value(o,r) over r = p, p + PARTS, ..., r in items of T.

{{BINDINGS}}
@bind var<storage, read_write> result: array<{{OUT}}>;

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

fn join(a: {{T}}, b: {{T}}) -> {{T}} {
#if MAXIMUM
    return max(a, b);
#else
    return a + b;
#endif
}

const parts = {{PARTS}}u;
const length = {{LENGTH}}u; // R, in items where COLUMNS is not set
#if COLUMNS
const inner = {{INNER}}u; // I, in items
#endif

#import "shared/main.wgsl" LANES=64
{
    let item = grid_index(workgroup, workgroups, lane, 64u);
    if (item < {{COUNT}}u) {
        var total = {{T}}({{START}});
#if COLUMNS
        let i = item % inner;
#if CUT
        let part = {{PART0}}u + item / inner;
        let end = min({{TO}}u, (part + 1u) * {{CHUNK}}u);
        if (part * {{CHUNK}}u < {{FROM}}u) {
            total = result[part * inner + i];
        }
        for (var r = max({{FROM}}u, part * {{CHUNK}}u); r < end; r++) {
            total = join(total, value((r - {{FROM}}u) * inner + i));
#else
        let part = (item / inner) % parts;
        let first = item / (inner * parts) * length;
        let end = min(length, (part + 1u) * {{CHUNK}}u);
        for (var r = part * {{CHUNK}}u; r < end; r++) {
            total = join(total, value((first + r) * inner + i));
#endif
        }
        let whole = total;
#else
        let part = item % parts;
        let first = item / parts * length;
        for (var r = part; r < length; r += parts) {
            total = join(total, value(first + r));
        }
#if VECTOR
#if MAXIMUM
        let whole = max(max(total.x, total.y), max(total.z, total.w));
#else
        let whole = (total.x + total.y) + (total.z + total.w);
#endif
#else
        let whole = total;
#endif
#endif
#if CUT
        result[{{PART0}}u * inner + item] = whole;
#else
#if ACCUMULATE
        result[item] += whole * {{SCALE}};
#else
        result[item] = whole * {{SCALE}};
#endif
#endif
    }
}
