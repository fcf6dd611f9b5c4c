// One level of a sum or maximum over the middle axis of [O, R, I], as reduce.wgsl, with LANES invocations a result, each of which
// has UNROLL of its items under way; twin: graph.Reduce.Eval. Who adds up what, and in which order, is fixed: the result has the
// same bits on every run.
// COLUMNS (I > 1): result[o,p,i] = reduction over the lanes of theirs, value(o,r,i) over r in [l chunk, (l+1) chunk), l from p LANES on, in items of T.
// Items are side by side. The order is that of chunk rows after each other, whether they come from here or from a level before.
// else (I = 1): result[o,p] = reduction of value(o,r) over each LANES of r = p LANES, (p + parts) LANES, ...; lanes are side by side.

#import "shared/reduce.wgsl"

const lanes = {{LANES}}u;
const results = {{RESULTS}}u; // of a workgroup
#if COLUMNS
const beside = results; // from a lane to the next of its result
#else
const beside = 1u;
#endif

var<workgroup> wholes: array<{{OUT}}, {{GROUP}}>;

#import "shared/main.wgsl" LANES={{GROUP}}
{
    let group = workgroup.y * workgroups.x + workgroup.x;
    var total0 = {{T}}({{START}});
#if COLUMNS
    let own = lane / results;
    let item = group * results + lane % results;
    if (item < params.count) {
        let i = item % params.inner;
        let first = item / (params.inner * params.parts) * params.length;
        var r = ((item / params.inner) % params.parts * lanes + own) * params.chunk;
        let end = min(params.length, r + params.chunk);
        for (; r + {{UNROLL}}u <= end; r += {{UNROLL}}u) {
#for E in 0..UNROLL
            let v{{E}} = value((first + r + {{E}}u) * params.inner + i);
#end
#for E in 0..UNROLL
            total0 = join(total0, v{{E}});
#end
        }
        for (; r < end; r++) {
            total0 = join(total0, value((first + r) * params.inner + i));
        }
    }
    wholes[lane] = total0;
#else
    let own = lane % lanes;
    let item = group * results + lane / lanes;
#for E in 1..UNROLL
    var total{{E}} = {{T}}({{START}});
#end
    if (item < params.count) {
        let first = item / params.parts * params.length;
        var r = item % params.parts * lanes + own;
        let step = lanes * params.parts;
        for (; r + {{LAST}}u * step < params.length; r += {{UNROLL}}u * step) {
#for E in 0..UNROLL
            total{{E}} = join(total{{E}}, value(first + r + {{E}}u * step));
#end
        }
        for (; r < params.length; r += step) {
            total0 = join(total0, value(first + r));
        }
    }
#for E in 1..UNROLL
    total0 = join(total0, total{{E}});
#end
#if VECTOR
#if MAXIMUM
    wholes[lane] = max(max(total0.x, total0.y), max(total0.z, total0.w));
#else
    wholes[lane] = (total0.x + total0.y) + (total0.z + total0.w);
#endif
#else
    wholes[lane] = total0;
#endif
#endif
    for (var half = lanes / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (own < half) {
#if MAXIMUM
            wholes[lane] = max(wholes[lane], wholes[lane + half * beside]);
#else
            wholes[lane] += wholes[lane + half * beside];
#endif
        }
    }
    if (own == 0u && item < params.count) {
#if ACCUMULATE
        result[item] += wholes[lane] * bitcast<f32>(params.scale);
#else
        result[item] = wholes[lane] * bitcast<f32>(params.scale);
#endif
    }
}
