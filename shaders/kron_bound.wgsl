// kron_bound: a lower bound of the spectral norm of each matrix of a stack, symmetric or SKEW (A' = -A), by power iteration, a workgroup a
// matrix, and what follows from it. Rows of both kinds have the squares of columns, so invocations own columns, QUADS quads of them at a
// time, and go down the rows together.
//   FACTOR, for the Gram T of a side:   L <- max(0.95 L + 0.05 l, l) with l = bound + s;  z = step rate/L;  (-z, 1 + z s)
//   TURN, for R of Procrustes:          1/max|R|; the first step length 1/(8 bound); tr(R Q) = |R|^2/2 max|R|; 1 where there is a turn
//   neither:                            the bound
// Twins: twinBound, (*factor).update, procrustesTwin.
#import "shared/bf16.wgsl"
#import "shared/threefry.wgsl"
#import "shared/normal.wgsl"
#import "shared/kron.wgsl"

struct Params {
    count: u32,      // of matrices
    size: u32,       // of a matrix, in quads
    block_size: u32, // from row to row of the draws, and what a mean square divides by
    step: f32,
    products: u32,   // of the iteration; not a constant, as drivers unroll that and compile five times as long
}

@bind var<uniform> p: Params;
@bind var<storage, read> t: array<vec4<f32>>;
// update and sides (spot, side, stack, bits of s), or keys; then for FACTOR keep, l and coefficients, for TURN turns and coefficients, else
// bounds; and x where it is too long for the workgroup's memory. All by matrix.
{{MORE}}

const lanes = {{LANES}}u;
const room = {{ROOM}}u; // columns
#if !STORED
// The four rows of the iteration by columns: those that are read and those that are written.
var<workgroup> x: array<vec4<f32>, {{BOTH_ROOMS}}>;
#endif
var<workgroup> parts: array<vec4<f32>, {{BOTH_LANES}}>;

fn largest(v: vec4<f32>) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }

fn total(v: vec4<f32>) -> f32 { return (v.x + v.y) + (v.z + v.w); }

fn sum_parts(first: u32) -> vec4<f32> {
    var s = parts[first];
    for (var i = 1u; i < lanes; i++) { s += parts[first + i]; }
    return s;
}

fn max_parts(first: u32) -> vec4<f32> {
    var s = parts[first];
    for (var i = 1u; i < lanes; i++) { s = max(s, parts[first + i]); }
    return s;
}

// over is 1/v, and 1 where v is next to zero.
fn over(v: vec4<f32>) -> vec4<f32> { return select(vec4<f32>(1.0), 1.0 / v, v > vec4<f32>(kron_tiny)); }

fn meet() {
    workgroupBarrier();
#if STORED
    storageBarrier();
#endif
}

fn draw(key: vec2<u32>, index: u32) -> f32 { return {{NORMAL}}(threefry_bits(key, vec2<u32>(0u, index))); }

#import "shared/main.wgsl" LANES={{LANES}}
{
    let group = workgroup.y * workgroups.x + workgroup.x;
    // Those past the end go along with nothing to do, as there are barriers.
    let number = min(group, p.count - 1u);
    let n4 = select(0u, p.size, group < p.count);
    let n = 4u * n4;
    let base = number * n * n4;
#if STORED
    let x0 = number * 2u * room;
#else
    let x0 = 0u;
#endif
#if GIVEN
    let key = keys[number];
#else
    let side = sides[number];
    let halves = threefry_fold(kron_block_key(update.dense, side.z), 0u);
#if ALIGNED
    var key = threefry_fold(halves, 0u);
#else
    var key = threefry_fold(halves, side.y);
#endif
#if SPLIT
    key = threefry_fold(key, {{SPLIT_BY}}u);
#endif
#endif

    // What all is divided by.
    var size = 0.0;
#if SKEW
    for (var i = lane; i < n * n4; i += lanes) { size = max(size, largest(abs(t[base + i]))); }
#else
    for (var i = lane; i < n4; i += lanes) {
#for I in 0..4
        size = max(size, t[base + (4u * i + {{I}}u) * n4 + i][{{I}}]);
#end
    }
#endif
    parts[lane] = vec4<f32>(size);
    workgroupBarrier();
    size = max_parts(0u).x;
    let some = size > kron_tiny;
    let inverse = select(0.0, 1.0 / size, some);

    // The strongest row, the first of equals.
    var most = -1.0;
    var row = 0.0;
    var squares = 0.0; // of all rows
    for (var g = lane * {{QUADS}}u; g < n4; g += lanes * {{QUADS}}u) {
#for V in 0..QUADS
        var s{{V}} = vec4<f32>();
        let at{{V}} = base + min(g + {{V}}u, n4 - 1u);
#end
        for (var i = 0u; i < n; i++) {
#for V in 0..QUADS
            let v{{V}} = t[at{{V}} + i * n4] * inverse;
            s{{V}} += v{{V}} * v{{V}};
#end
        }
#for V in 0..QUADS
        if (g + {{V}}u < n4) {
#for I in 0..4
            if (s{{V}}[{{I}}] > most) {
                most = s{{V}}[{{I}}];
                row = f32(4u * (g + {{V}}u) + {{I}}u);
            }
#end
            squares += total(s{{V}});
        }
#end
    }
    parts[lanes + lane] = vec4<f32>(most, row, squares, 0.0);
    workgroupBarrier();
    squares = 0.0;
    most = -1.0;
    for (var i = 0u; i < lanes; i++) {
        let other = parts[lanes + i];
        if (other.x > most || (other.x == most && other.y < row)) {
            most = other.x;
            row = other.y;
        }
        squares += other.z;
    }
    let strongest = base + u32(row) * n4;
    let mean = most / f32(p.block_size);
    let strength = select(0.0, inverse / sqrt(mean), mean > kron_tiny);

    // x = random rows + the strongest.
    var along = vec4<f32>();
    for (var c = lane; c < n; c += lanes) {
        let strong = t[strongest + c / 4u][c % 4u];
        let r = vec4<f32>(draw(key, c), draw(key, p.block_size + c), draw(key, 2u * p.block_size + c), draw(key, 3u * p.block_size + c));
#if ALIGNED
        along += r * (strong * inverse);
        x[x0 + c] = r;
#else
        x[x0 + c] = r + strong * strength;
#endif
    }
#if ALIGNED
    parts[lane] = along;
    workgroupBarrier();
    along = sum_parts(0u);
    let sign = select(vec4<f32>(1.0), vec4<f32>(-1.0), along < vec4<f32>());
    for (var c = lane; c < n; c += lanes) {
        x[x0 + c] = x[x0 + c] * sign + t[strongest + c / 4u][c % 4u] * strength;
    }
#endif
    meet();

    // What the rows are divided by comes late, with the next product: their largest elements, and for the last product their lengths.
    let last = p.products - 1u;
    for (var k = 0u; k <= last; k++) {
        let from_ = x0 + (k & 1u) * room;
        let to = x0 + room - (k & 1u) * room;
        var scale = vec4<f32>(1.0);
        if (k == last) {
            scale = over(sqrt(sum_parts(((k + 1u) & 1u) * lanes)));
        } else if (k > 0u) {
            scale = max_parts(((k + 1u) & 1u) * lanes);
#if !ALIGNED
            scale = vec4<f32>(largest(scale));
#endif
            scale = over(scale);
        }
        scale *= inverse;
        var part = vec4<f32>();
        for (var g = lane * {{QUADS}}u; g < n4; g += lanes * {{QUADS}}u) {
#for V in 0..QUADS
#for I in 0..4
            var y{{V}}_{{I}} = vec4<f32>();
#end
            let at{{V}} = base + min(g + {{V}}u, n4 - 1u);
#end
            for (var i = 0u; i < n; i += 4u) {
#for R in 0..4
                let x{{R}} = x[from_ + i + {{R}}u];
#for V in 0..QUADS
                let v{{R}}_{{V}} = t[at{{V}} + (i + {{R}}u) * n4];
#for I in 0..4
                y{{V}}_{{I}} += x{{R}} * v{{R}}_{{V}}[{{I}}];
#end
#end
#end
            }
#for V in 0..QUADS
            if (g + {{V}}u < n4) {
#for I in 0..4
                y{{V}}_{{I}} *= scale;
                x[to + 4u * (g + {{V}}u) + {{I}}u] = y{{V}}_{{I}};
                if (k + 1u < last) {
                    part = max(part, abs(y{{V}}_{{I}}));
                } else {
                    part += y{{V}}_{{I}} * y{{V}}_{{I}};
                }
#end
            }
#end
        }
        parts[(k & 1u) * lanes + lane] = part;
        meet();
    }
    if (lane == 0u && group < p.count) {
        var bound = sqrt(largest(sum_parts(0u))); // of what was divided by size
#if TURN
        // tr(R Q) of R = Q' - Q is |R|^2/2; R is divided by its largest element once.
        let trace = 0.5 * squares * size;
        let turning = some && bound > kron_tiny && trace > 0.0;
        turns[number] = vec4<f32>(inverse, 0.125 / max(bound, kron_tiny), trace, select(0.0, 1.0, turning));
        coefficients[number] = vec2<f32>(select(0.0, -inverse, turning), 0.0); // of R R' = -R R
#else
        bound = select(0.0, bound * size, some);
#if FACTOR
        let s = bitcast<f32>(side.w);
        let l = bound + s;
        let next = max(0.95 * lipschitz[number] + 0.05 * l, l);
        let z = p.step * update.rate / next;
        if (keep[number] == 0u) { lipschitz[number] = next; }
        coefficients[number] = vec2<f32>(-z, 1.0 + z * s);
#else
        bounds[number] = bound;
#endif
#endif
    }
}
