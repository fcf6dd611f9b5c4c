// What two diagonal factors of a matrix follow, in parts: of each tile the sums along rows and along columns of
//
//     P^2,  P = ql^2 (G + N) qr^2
//
// Twin: (*twinBlock).refresh, (*factor).update.
#import "shared/threefry.wgsl"
#import "shared/kron.wgsl"
#import "shared/kron_area.wgsl"

struct Params {
    groups: u32,
}

@bind var<uniform> params: Params;
@bind var<uniform> update: Update;
@bind var<storage, read> groups: array<Group>;
@bind var<storage, read> areas: array<Area>;
@bind var<storage, read> updates: array<f32>;
@bind var<storage, read> amplitude: array<f32>; // of the noise of each block
#import "shared/kron_fours.wgsl" NAME=q ACCESS=read
@bind var<storage, read_write> partials: array<f32>;

#if NOISE
#import "shared/kron_draw.wgsl"
#endif

const largest = vec4<f32>(1e15); // what has a square in f32, and sums of squares

#import "shared/main.wgsl" LANES=64
{
    let index = grid_index(workgroup, workgroups, 0u, 1u);
    if (index >= params.groups) { return; }
    let group = groups[index];
    let area = areas[group.area];
    let tile = (group.first + lane) / area.across;
    let across = (group.first + lane) % area.across;
    let first = tile * tile_rows;
    if (first >= area.rows) { return; }
    let fours = (area.cols + 3u) / 4u;
#if NOISE
    let scale = amplitude[area.block];
    let key = threefry_fold(block_key(area.kind, area.stack, area.leaf), 1u);
#endif
#for K in 0..4
    let f{{K}} = across + {{K}}u * area.across;
    var right{{K}} = vec4<f32>(0.0);
    if (f{{K}} < fours) { right{{K}} = q_at(area.right + f{{K}}); }
    var down{{K}} = vec4<f32>(0.0);
#end
    for (var r = first; r < min(first + tile_rows, area.rows); r++) {
        let i = area.left + area.row + r;
        let left = q_at(i / 4u)[i % 4u];
        var along = vec4<f32>(0.0);
#for K in 0..4
        if (f{{K}} < fours) {
            var x = vec4<f32>(0.0);
#for C in 0..4
            if (4u * f{{K}} + {{C}}u < area.cols) {
                x[{{C}}] = updates[area.place + r * area.cols + 4u * f{{K}} + {{C}}u];
#if NOISE
                x[{{C}}] += scale * draw(key, (area.row + r) * area.cols + 4u * f{{K}} + {{C}}u);
#endif
            }
#end
            let p = clamp(left * (left * (right{{K}} * (right{{K}} * x))), -largest, largest);
            along += p * p;
            down{{K}} += p * p;
        }
#end
        partials[area.by_row + (area.row + r) * area.across + across] = (along.x + along.y) + (along.z + along.w);
    }
#for K in 0..4
    if (f{{K}} < fours) {
        let at = area.by_col + 4u * (tile * fours + f{{K}});
#for C in 0..4
        partials[at + {{C}}u] = down{{K}}[{{C}}];
#end
    }
#end
}
