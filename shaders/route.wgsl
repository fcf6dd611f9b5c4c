// route: the K greatest logits of each row, the greatest first, of equals the first, and their weights: the softmax over these, or ALL over all. An invocation
// takes a row. Twin: graph.Route.Eval.
struct Params {
    count: u32, // rows
    experts: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> logits: array<f32>;
@bind var<storage, read_write> weights: array<f32>;
@bind var<storage, read_write> ids: array<i32>;

const K = {{K}}u;

#import "shared/main.wgsl" LANES=64
{
    let row = grid_index(workgroup, workgroups, lane, 64u);
    if (row >= p.count) {
        return;
    }
    let first = row * p.experts;
    var greatest = 0.0;
    var last = 0.0; // logit chosen before, and its expert
    var expert = 0u;
    var sum = 0.0;
    for (var j = 0u; j < K; j++) {
        var best = j; // where none is: logits that are no numbers
        var most = logits[first + j];
        var found = false;
        for (var e = 0u; e < p.experts; e++) {
            let l = logits[first + e];
            if ((j == 0u || l < last || (l == last && e > expert)) && (!found || l > most)) {
                best = e;
                most = l;
                found = true;
            }
        }
        if (j == 0u) {
            greatest = most;
        }
        last = most;
        expert = best;
        let w = exp(most - greatest);
        sum += w;
        weights[row * K + j] = w;
        ids[row * K + j] = i32(best);
    }
#if ALL
    sum = 0.0;
    for (var e = 0u; e < p.experts; e++) {
        sum += exp(logits[first + e] - greatest);
    }
#endif
    for (var j = 0u; j < K; j++) {
        weights[row * K + j] /= sum;
    }
}
