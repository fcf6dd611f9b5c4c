// The updates of matrices whose factors are both diagonal: u <- ql^2 u qr^2. Twin: apply in kron/twin_factor.go.
#import "shared/kron_area.wgsl"

struct Params {
    groups: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> groups: array<Group>;
@bind var<storage, read> areas: array<Area>;
#import "shared/kron_fours.wgsl" NAME=q ACCESS=read
@bind var<storage, read_write> updates: array<f32>;

// What a parameter may get that had no gradient for so long that its factors are as large as can be: finite, and so is its square.
const largest = 1e15;

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    if (index >= params.groups) { return; }
    let group = groups[index];
    let area = areas[group.area];
    let first = (group.first + lane) / area.across * tile_rows;
    let across = (group.first + lane) % area.across;
    for (var k = 0u; k < tile_fours; k++) {
        let col = 4u * (across + k * area.across);
        if (col < area.cols) {
            let right = q_at(area.right + col / 4u);
            for (var r = first; r < min(first + tile_rows, area.rows); r++) {
                let i = area.left + area.row + r;
                let left = q_at(i / 4u)[i % 4u];
#for C in 0..4
                if (col + {{C}}u < area.cols) {
                    let at = area.place + r * area.cols + col + {{C}}u;
                    let x = left * (left * (right[{{C}}] * (right[{{C}}] * updates[at])));
                    updates[at] = select(x, sign(x) * largest, abs(x) > largest);
                }
#end
            }
        }
    }
}
