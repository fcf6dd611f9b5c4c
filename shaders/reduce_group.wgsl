// One level of a sum or maximum over the middle axis of [O, R, I], as reduce.wgsl, with LANES invocations a result, each of which
// has UNROLL of its items under way; twin: graph.Reduce.Eval. Who adds up what, and in which order, is fixed: the result has the
// same bits on every run.
// COLUMNS (I > 1): result[o,p,i] = reduction of value(o,r,i) over r in [p CHUNK, (p+1) CHUNK), i in items of T; items are side by side.
// else (I = 1): result[o,p] = reduction of value(o,r) over each LANES of r = p LANES, (p + PARTS) LANES, ...; lanes are side by side.

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
const lanes = {{LANES}}u;
const results = {{RESULTS}}u; // of a workgroup
#if COLUMNS
const inner = {{INNER}}u; // I, in items
const step = lanes;
const beside = results; // from a lane to the next of its result
#else
const step = lanes * parts;
const beside = 1u;
#endif

var<workgroup> wholes: array<{{OUT}}, {{GROUP}}>;

#import "shared/main.wgsl" LANES={{GROUP}}
{
    let group = workgroup.y * workgroups.x + workgroup.x;
#if COLUMNS
    let own = lane / results;
    let item = group * results + lane % results;
    let i = item % inner;
    let part = (item / inner) % parts;
    let first = item / (inner * parts) * length;
    let end = min(length, (part + 1u) * {{CHUNK}}u);
    var r = part * {{CHUNK}}u + own;
#else
    let own = lane % lanes;
    let item = group * results + lane / lanes;
    let first = item / parts * length;
    let end = length;
    var r = item % parts * lanes + own;
#endif
#for E in 0..UNROLL
    var total{{E}} = {{T}}({{START}});
#end
    if (item < {{COUNT}}u) {
        for (; r + {{UNROLL}}u * step <= end; r += {{UNROLL}}u * step) {
#for E in 0..UNROLL
#if COLUMNS
            total{{E}} = join(total{{E}}, value((first + r + {{E}}u * step) * inner + i));
#else
            total{{E}} = join(total{{E}}, value(first + r + {{E}}u * step));
#endif
#end
        }
        for (; r < end; r += step) {
#if COLUMNS
            total0 = join(total0, value((first + r) * inner + i));
#else
            total0 = join(total0, value(first + r));
#endif
        }
    }
#for E in 1..UNROLL
    total0 = join(total0, total{{E}});
#end
#if COLUMNS
    wholes[lane] = total0;
#else
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
    if (own == 0u && item < {{COUNT}}u) {
#if ACCUMULATE
        result[item] += wholes[lane] * {{SCALE}};
#else
        result[item] = wholes[lane] * {{SCALE}};
#endif
    }
}
