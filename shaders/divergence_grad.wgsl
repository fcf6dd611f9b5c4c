// divergence_grad: the logits of a student become the gradient of their divergence from a teacher's, over a run of the columns: dloss s' (h - sum s' h) / temperature,
// which at beta 0 is dloss (s' - t') / temperature; 0 in rows of label -100 and in padding. See divergence.wgsl. An element an invocation. Twin:
// graph.HeadDivergenceGrad.Eval.
struct Params {
    rows: u32,
    columns: u32,  // of this run
    stride: u32,   // of a row of logits
    at: u32,       // where the run begins in a row of logits
    teacher_stride: u32,
    teacher_at: u32,
    row0: u32,     // of the chunk, in labels and rows
    padded: u32,   // columns with the padding behind the run
    beta: f32,
    inverse: f32,  // 1 / temperature
    cap: f32,      // of the student's logits; 0: none
    teacher_cap: f32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> labels: array<i32>;
@bind var<storage, read> rows: array<f32>;
@bind var<storage, read> dloss: array<f32>;
@bind var<storage, read> teacher: array<f32>;
@bind var<storage, read_write> logits: array<f32>;

#import "shared/functions.wgsl" T=f32
#import "shared/divergence.wgsl"
#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.rows * p.padded) {
        return;
    }
    let row = i / p.padded;
    let column = i % p.padded;
    let at = p.row0 + row;
    let to = row * p.stride + p.at + column;
    var d = 0.0;
    if (column < p.columns && labels[at] != -100) {
        let z = capped(logits[to], p.cap);
        let u = teacher[row * p.teacher_stride + p.teacher_at + column];
        let s = z * p.inverse - rows[4u * at];
#if LISTED
        if (u <= LOWEST) {
            d = exp(s) * (rows[4u * at + 3u] - rows[4u * at + 2u]);
        } else {
            d = slope(s, u, rows[4u * at + 2u]);
        }
#else
        d = slope(s, capped(u, p.teacher_cap) * p.inverse - rows[4u * at + 1u], rows[4u * at + 2u]);
#endif
        d *= dloss[0] * p.inverse;
        if (p.cap > 0.0) {
            d *= 1.0 - (z / p.cap) * (z / p.cap);
        }
    }
    logits[to] = d;
}

fn slope(s: f32, t: f32, inner: f32) -> f32 {
    if (p.beta == 0.0) {
        return exp(s) - exp(t);
    }
    return exp(s) * (apart(s, t).z - inner);
}
