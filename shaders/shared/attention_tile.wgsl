// What the tiled kernels of attention share. A workgroup is TEAMS teams of SPLIT invocations. A team owns ROWS rows (positions, or
// keys) of a head, and each of its invocations holds the quads part, part + SPLIT, ... of all of them: so a head of any width
// fits registers. What the rows meet is staged TEAMS at a time in workgroup memory and met four at a time: every
// invocation adds up its quads' part of the four scores of each row, the parts are handed over, and the invocations share the rows
// out among them to join the parts and to make weights of the scores.
const HEAD_DIM = {{HEAD_DIM}}u;
const SPLIT = {{SPLIT}}u;
const TEAMS = {{TEAMS}}u;
const ROWS = {{ROWS}}u;
const PITCH = SPLIT + 1u; // one more than there are keeps the rows of a team in different banks
const LOWEST = -2.0e38; // finite times LOG2E
const LOG2E = 1.4426950408889634;

#import "shared/attention_seen.wgsl"

// sum + a . b, without the sum of products that dot begins with.
fn add_dot(sum: f32, a: vec4<f32>, b: vec4<f32>) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
