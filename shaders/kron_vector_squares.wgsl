// Sums of squares of the gradients of vectors, one a chunk. Twin: rootMeanSquare in kron/twin_matrix.go.
#import "shared/kron_rms.wgsl"
#import "shared/kron_factor.wgsl"

struct Params {
    items: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> items: array<Item>;
@bind var<storage, read> updates: array<f32>;
@bind var<storage, read_write> squares: array<vec4<f32>>;

var<workgroup> sums: array<vec4<f32>, 64>;

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    var sum = vec4<f32>();
    if (index < params.items) {
        let item = items[index];
        for (var i = lane; i < item.count; i += 64u) {
            sum = rms_join(sum, rms_of(updates[item.place + i]));
        }
    }
#import "shared/kron_sums.wgsl" COUNT=params.items TO=items[index].chunk
}
