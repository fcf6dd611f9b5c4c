// One level of a sum or maximum over the middle axis of [O, R, I]; twin: graph.Reduce.Eval. An invocation reduces a fixed part
// of R, so the result has the same bits on every run; more levels follow until one part is left.
// COLUMNS (I > 1): result[o,p,i] = reduction of value(o,r,i) over r in [p chunk, (p+1) chunk), i in items of T.
//   CUT: of rows [begin, stop) of R alone, which are all that value has; a part that begin cuts goes on from result.
// else (I = 1): result[o,p] = reduction of value(o,r) over r = p, p + parts, ..., r in items of T.

#import "shared/reduce.wgsl"

#import "shared/main.wgsl" LANES=64
{
    let item = grid_index(workgroup, workgroups, lane, 64u);
    if (item < params.count) {
        var total = {{T}}({{START}});
#if COLUMNS
        let i = item % params.inner;
#if CUT
        let part = params.part + item / params.inner;
        let end = min(params.stop, (part + 1u) * params.chunk);
        if (part * params.chunk < params.begin) {
            total = result[part * params.inner + i];
        }
        for (var r = max(params.begin, part * params.chunk); r < end; r++) {
            total = join(total, value((r - params.begin) * params.inner + i));
#else
        let part = (item / params.inner) % params.parts;
        let first = item / (params.inner * params.parts) * params.length;
        let end = min(params.length, (part + 1u) * params.chunk);
        for (var r = part * params.chunk; r < end; r++) {
            total = join(total, value((first + r) * params.inner + i));
#endif
        }
        let whole = total;
#else
        let part = item % params.parts;
        let first = item / params.parts * params.length;
        for (var r = part; r < params.length; r += params.parts) {
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
        result[params.part * params.inner + item] = whole;
#else
#if ACCUMULATE
        result[item] += whole * bitcast<f32>(params.scale);
#else
        result[item] = whole * bitcast<f32>(params.scale);
#endif
#endif
    }
}
