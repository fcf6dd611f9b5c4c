// The updates of vectors: u <- q^2 u. Twin: apply in kron/twin_factor.go.
#import "shared/kron_factor.wgsl"

struct Params {
    items: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> items: array<Item>;
#import "shared/kron_fours.wgsl" NAME=q ACCESS=read
@bind var<storage, read_write> updates: array<f32>;

// What a parameter may get that had no gradient for so long that its factor is as large as can be: finite, and so is its square.
const largest = 1e15;

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    if (index >= params.items) { return; }
    let item = items[index];
    for (var i = 4u * lane; i < item.count; i += 256u) {
        let f = q_at(item.four + i / 4u);
        let left = item.count - i;
#for K in 0..4
        if (left > {{K}}u) {
            let at = item.place + i + {{K}}u;
            let x = f[{{K}}] * (f[{{K}}] * updates[at]);
            updates[at] = select(x, sign(x) * largest, abs(x) > largest);
        }
#end
    }
}
