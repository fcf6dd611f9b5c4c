// What the tiled kernels of attention share. They are made as products are: a workgroup of DOWN x ACROSS invocations owns ROWS rows (positions, or keys)
// of a head, and goes through the others in blocks of OTHERS. An invocation has four rows, those from 4 down on, and of scores the others across,
// across + ACROSS, ...; of sums the quads of the head across, across + ACROSS, ... The operands of scores are staged a step of quads at a time, those
// of sums KEYS others at a time; weights go through workgroup memory from one to the other.
const HEAD_DIM = {{HEAD_DIM}}u;
const ACROSS = {{ACROSS}}u;
const DOWN = {{DOWN}}u;
const ROWS = 4u * DOWN;
const OTHERS = {{OTHERS}}u;
const KEYS = {{KEYS}}u;
const LANES = {{LANES}}u;
const LOWEST = -2.0e38; // finite times LOG2E
const LOG2E = 1.4426950408889634;

// HALVES times four quads of the head of each row, and of each of the others; one more keeps them apart in their banks. In the place of the others' are
// the quads of KEYS others in sums, and before and after that what invocations of the same rows tell one another.
var<workgroup> rows: array<array<array<array<vec4<f32>, {{ROW_QUADS}}>, 4>, {{DOWN}}>, {{HALVES}}>;
var<workgroup> others: array<array<array<vec4<f32>, 5>, {{ACROSS}}>, {{SLOTS}}>;
// What the others count for with each quad of rows.
var<workgroup> weights: array<array<array<vec4<f32>, {{DOWN_1}}>, 4>, {{OTHER_QUADS}}>;

#import "shared/attention_seen.wgsl"

// sum + a . b, without the sum of products that dot begins with.
fn add_dot(sum: f32, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
