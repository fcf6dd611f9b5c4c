// What the sums of optim_rows come to, a workgroup a matrix w with the step U = -eta u: pull and stretch of each row, of which the change of the parameters is
// pull w + stretch U. Norms are Frobenius norms.
//
//   floor by row     f_i = max(1, floor max(|w_i|, 1e-8) / max(|u_i|, 1e-8))      by matrix: f, of whole norms
//   u <- f u
//   no sphere        pull = 0, stretch = f
//   sphere           z = w - eta |w| u / max(|u|, 1e-10);  w <- z |w| / max(|z|, 1e-10)
//
// with |z|² / |w|² = 1 + x, x = b (2 w·U + b U·U) / w·w and b = |w| / max(|u|, 1e-10): pull = (1+x)^-½ - 1 without cancellation, stretch = b f (1+x)^-½.
// Twin: (*optim.Twin).rowNorms, and the element of optim/land.go.
struct Params {
    matrices: u32,
    first: u32, // where in table they begin: first sum, rows, sums a row, place of the first row, 1 floor by row | 2 by matrix | 4 sphere, rate
    rows: u32,  // where in table the two numbers of the first of all rows are
    floor: f32,
}

struct Scalars {
    words: array<vec4<u32>, {{SCALARS}}>,
}

@bind var<uniform> params: Params;
@bind var<uniform> scalars: Scalars;
@bind var<storage, read_write> table: array<u32>;
@bind var<storage, read> row_sums: array<vec4<f32>>;

var<workgroup> totals: array<vec4<f32>, {{LANES}}>;

// above is the floor's factor of an update u of parameters w, both squared norms; the update is multiplied by eta.
fn above(w: f32, u: f32, eta: f32) -> f32 {
    let f = params.floor * max(sqrt(w), {{FLOOR_LEAST}}) / max(sqrt(u) / eta, {{FLOOR_LEAST}});
    return select(f, 1.0, f <= 1.0 || eta == 0.0);
}

#import "shared/main.wgsl" LANES={{LANES}}
{
    let matrix = workgroup.y * workgroups.x + workgroup.x;
    let known = matrix < params.matrices;
    let words = params.first + select(0u, matrix, known) * 6u;
    let base = table[words];
    let rows = select(0u, table[words + 1u], known);
    let each = table[words + 2u];
    let at = params.rows + table[words + 3u];
    let kind = table[words + 4u];
    let eta = bitcast<f32>({{ETA}}) * bitcast<f32>(table[words + 5u]);
    var total = vec4<f32>(0.0);
    for (var row = lane; row < rows; row += {{LANES}}u) {
        var sum = vec4<f32>(0.0);
        for (var k = 0u; k < each; k++) { sum += row_sums[base + k * rows + row]; }
        if ((kind & 1u) != 0u) {
            let f = above(sum.x, sum.z, eta);
            sum = vec4<f32>(sum.x, f * sum.y, f * f * sum.z, 0.0);
            table[at + 2u * row + 1u] = bitcast<u32>(f);
        }
        total += sum;
    }
    totals[lane] = total;
    workgroupBarrier();
    var sums = vec4<f32>(0.0);
    for (var k = 0u; k < min({{LANES}}u, rows); k++) { sums += totals[k]; }
    var pull = 0.0;
    var stretch = 1.0;
    if ((kind & 2u) != 0u) {
        stretch = above(sums.x, sums.z, eta);
        sums = vec4<f32>(sums.x, stretch * sums.y, stretch * stretch * sums.z, 0.0);
    }
    if ((kind & 4u) != 0u && eta != 0.0) {
        let radius = sqrt(sums.x);
        let b = radius * eta / max(sqrt(sums.z), {{SPHERE_LEAST}} * eta);
        let x = b * (2.0 * sums.y + b * sums.z) / select(sums.x, 1.0, sums.x == 0.0);
        let squared = 1.0 + x;
        let z = sqrt(select(squared, 0.0, squared < 0.0));
        if (radius * z <= {{SPHERE_LEAST}}) {
            pull = radius / {{SPHERE_LEAST}} - 1.0;
            stretch *= b * (radius / {{SPHERE_LEAST}});
        } else {
            pull = -x / (z * (1.0 + z));
            stretch *= b / z;
        }
    }
    if ((kind & 1u) != 0u) {
        for (var row = lane; row < rows; row += {{LANES}}u) {
            table[at + 2u * row] = bitcast<u32>(pull);
            table[at + 2u * row + 1u] = bitcast<u32>(stretch * bitcast<f32>(table[at + 2u * row + 1u]));
        }
    } else if (lane == 0u && known) {
        table[at] = bitcast<u32>(pull);
        table[at + 1u] = bitcast<u32>(stretch);
    }
}
