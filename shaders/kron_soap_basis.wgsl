// kron_soap_basis: the orthogonal factor of each matrix, whose triangular factor has a diagonal that is not negative, a workgroup a matrix, by
// Householder reflections: they hold where columns are nearly of others. Reflection k is I - b v v', with v in rows k and on; once all
// have made A triangular, they make the factor out of a diagonal of signs, the last one first.
// LANES are ACROSS lanes, of four columns each, times as many as go down the rows together. A dispatch makes reflections from from_ to
// before to, or BACK takes them into the factor, the last one of those first. Twin: orthogonalTwin.

struct Params {
    count: u32,
    size: u32, // of a matrix, in quads
    from_: u32,
    to: u32,
}

@bind var<uniform> p: Params;
@bind var<storage, read> sides: array<u32>; // in use, by matrix
@bind var<storage, read> keep: array<u32>;  // not zero: the factor stays as it is
#if BACK
@bind var<storage, read> turns: array<f32>;
@bind var<storage, read> a: array<vec4<f32>>;
@bind var<storage, read_write> q: array<vec4<f32>>;
#else
@bind var<storage, read_write> turns: array<f32>; // b, with the sign of the triangular factor's diagonal
@bind var<storage, read_write> a: array<vec4<f32>>; // columns become the v
#endif

const lanes = {{LANES}}u;
const across = {{ACROSS}}u;
const down = lanes / across;
const heads = {{HEADS}}u;

var<workgroup> v: array<f32, {{ROOM}}>;
var<workgroup> parts: array<vec4<f32>, {{LANES}}>;

#if !BACK
// total is the sum of what all have put into parts.x, in a fixed order.
fn total(lane: u32) -> f32 {
    workgroupBarrier();
    if (lane < heads) {
        var sum = parts[lane].x;
        for (var i = lane + heads; i < lanes; i += heads) { sum += parts[i].x; }
        parts[lane].x = sum;
    }
    workgroupBarrier();
    var sum = parts[0].x;
    for (var i = 1u; i < heads; i++) { sum += parts[i].x; }
    workgroupBarrier();
    return sum;
}
#endif

// column is v' times four columns, of which the lanes that go down the rows together have a part each.
fn column(part: vec4<f32>, lane: u32) -> vec4<f32> {
    parts[lane] = part;
    workgroupBarrier();
    var sum = parts[lane % across];
    for (var i = 1u; i < down; i++) { sum += parts[lane % across + i * across]; }
    workgroupBarrier();
    return sum;
}

#import "shared/main.wgsl" LANES={{LANES}}
{
    let group = workgroup.y * workgroups.x + workgroup.x;
    let number = min(group, p.count - 1u);
    // Those past the end go along with nothing to do, as there are barriers.
    let some = group < p.count && keep[number] == 0u;
    let n = select(0u, sides[number], some);
    let n4 = p.size;
    let base = number * 4u * n4 * n4;
    let mine = lane % across;
    let first = lane / across;

#if !BACK
    for (var k = p.from_; k < min(p.to, n); k++) {
        var squares = 0.0;
        for (var r = k + lane; r < n; r += lanes) {
            let x = a[base + r * n4 + k / 4u][k % 4u];
            v[r] = x;
            squares += x * x;
        }
        parts[lane] = vec4<f32>(squares, 0.0, 0.0, 0.0);
        squares = total(lane);
        let is = squares > 1e-36; // smaller squares may be none
        let inverse = select(0.0, 1.0 / sqrt(squares), is);
        let head = v[k];
        let sign = select(1.0, -1.0, head < 0.0);
        let along = 1.0 + abs(head) * inverse;
        workgroupBarrier();
        for (var r = k + lane; r < n; r += lanes) {
            let x = select(v[r] * inverse, sign * along, r == k);
            v[r] = x;
            var four = a[base + r * n4 + k / 4u];
            four[k % 4u] = x;
            a[base + r * n4 + k / 4u] = four;
        }
        let b = select(0.0, 1.0 / along, is);
        if (lane == 0u) { turns[number * 4u * n4 + k] = select(0.0, -sign * b, is); }
        workgroupBarrier();
        for (var g = (k + 1u) / 4u; g * 4u < n; g += across) {
            let quad = g + mine;
            let at = base + min(quad, n4 - 1u);
            var part = vec4<f32>();
            for (var r = k + first; r < n; r += down) { part += v[r] * a[at + r * n4]; }
            var sum = b * column(part, lane);
            // Columns up to k are done.
            sum = select(sum, vec4<f32>(), vec4<u32>(4u * quad) + vec4<u32>(0u, 1u, 2u, 3u) <= vec4<u32>(k));
            if (quad < n4) {
                for (var r = k + first; r < n; r += down) { a[at + r * n4] -= v[r] * sum; }
            }
        }
        storageBarrier();
        workgroupBarrier();
    }

#else
    if (some && p.to >= n) {
        for (var i = lane; i < 4u * n4 * n4; i += lanes) {
            var x = vec4<f32>();
            let r = i / n4;
            if (r < n && r / 4u == i % n4) { x[r % 4u] = select(1.0, -1.0, turns[number * 4u * n4 + r] < 0.0); }
            q[base + i] = x;
        }
    }
    storageBarrier();
    workgroupBarrier();
    for (var next = min(p.to, n); next > p.from_; next--) {
        let k = next - 1u;
        for (var r = k + lane; r < n; r += lanes) { v[r] = a[base + r * n4 + k / 4u][k % 4u]; }
        let b = abs(turns[number * 4u * n4 + k]);
        workgroupBarrier();
        for (var g = k / 4u; g * 4u < n; g += across) {
            let quad = g + mine;
            let at = base + min(quad, n4 - 1u);
            var part = vec4<f32>();
            for (var r = k + first; r < n; r += down) { part += v[r] * q[at + r * n4]; }
            let sum = b * column(part, lane);
            if (quad < n4) {
                for (var r = k + first; r < n; r += down) { q[at + r * n4] -= v[r] * sum; }
            }
        }
        storageBarrier();
        workgroupBarrier();
    }
#endif
}
