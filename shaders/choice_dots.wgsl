// choice_dots: the inner product of a row of dy with what is laid out for each of its choices. A workgroup takes a choice. Twin: graph.ChoiceDots.Eval.
#import "shared/choice_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> laid: array<f32>;
@bind var<storage, read> dy: array<f32>;
@bind var<storage, read> slots: array<i32>;
@bind var<storage, read_write> dots: array<f32>;

var<workgroup> sums: array<f32, 64>;

#import "shared/main.wgsl" LANES=64
{
    let choice = workgroup.x + workgroup.y * workgroups.x;
    var sum = 0.0;
    if (choice < p.count) {
        let start = u32(slots[choice]) * p.width;
        let row = choice / p.choices * p.width;
        for (var c = lane; c < p.width; c += 64u) {
            sum += laid[start + c] * dy[row + c];
        }
    }
    sums[lane] = sum;
    for (var left = 32u; left > 0u; left /= 2u) {
        workgroupBarrier();
        if (lane < left) {
            sums[lane] += sums[lane + left];
        }
    }
    if (lane == 0u && choice < p.count) {
        dots[choice] = sums[0];
    }
}
