// Sums of squares of the gradients of matrices whose factors are both diagonal, one a workgroup. Twin: rootMeanSquare in
// kron/twin_matrix.go.
#import "shared/kron_rms.wgsl"
#import "shared/kron_area.wgsl"

struct Params {
    groups: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> groups: array<Group>;
@bind var<storage, read> areas: array<Area>;
@bind var<storage, read> updates: array<f32>;
@bind var<storage, read_write> squares: array<vec4<f32>>;

var<workgroup> sums: array<vec4<f32>, 64>;

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    var sum = vec4<f32>();
    if (index < params.groups) {
        let group = groups[index];
        let area = areas[group.area];
        let first = (group.first + lane) / area.across * tile_rows;
        let across = (group.first + lane) % area.across;
        for (var r = first; r < min(first + tile_rows, area.rows); r++) {
            for (var k = 0u; k < tile_fours; k++) {
                let col = 4u * (across + k * area.across);
                for (var c = col; c < min(col + 4u, area.cols); c++) {
                    sum = rms_join(sum, rms_of(updates[area.place + r * area.cols + c]));
                }
            }
        }
    }
#import "shared/kron_sums.wgsl" COUNT=params.groups TO=groups[index].sum
}
