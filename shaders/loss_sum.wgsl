// loss_sum: total = sum(losses), by one workgroup in a fixed order. Twin: graph.CrossEntropy.Eval.
struct Params {
    rows: u32,
    pad0: u32, pad1: u32, pad2: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> losses: array<f32>;
@bind var<storage, read_write> total: array<f32>;

var<workgroup> sums: array<f32, 64>;

@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) local: u32) {
    var sum = 0.0;
    for (var i = local; i < p.rows; i += 64u) {
        sum += losses[i];
    }
    sums[local] = sum;
    for (var half = 32u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (local < half) {
            sums[local] += sums[local + half];
        }
    }
    if (local == 0u) {
        total[0] = sums[0];
    }
}
