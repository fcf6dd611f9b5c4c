// Sums of squares of tiles of matrices over their rows and over their columns, an invocation a tile: each element is read once. What is
// left, one number a row and tile across, and one a column and tile down, optim_adafactor_fold adds up. Twin: (*optim.factoredTwin).update.
#import "shared/adafactor.wgsl"

struct Params {
    tiles: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read> update: array<{{T}}>;
@bind var<storage, read> table: array<Tile>;
@bind var<storage, read_write> row_sums: array<f32>;
@bind var<storage, read_write> col_sums: array<{{T}}>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let i = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (i >= params.tiles) { return; }
    let tile = table[i];
    var line = tile.first;
    var out = tile.row_sum;
#for J in 0..{{ACROSS}}
    var s{{J}} = {{T}}(0.0);
#end
    for (var r = 0u; r < tile.rows; r++) {
        var total = {{T}}(0.0);
#for J in 0..{{ACROSS}}
        if ({{J}}u < tile.cols) {
            let x = update[line + {{J}}u * tile.inner];
            s{{J}} += x * x;
            total += x * x;
        }
#end
#if VECTOR
        row_sums[out] = (total.x + total.y) + (total.z + total.w);
#else
        row_sums[out] = total;
#endif
        line += tile.line;
        out += tile.row_step;
    }
#for J in 0..{{ACROSS}}
    if ({{J}}u < tile.cols) { col_sums[tile.col_sum + {{J}}u * tile.inner] = s{{J}}; }
#end
}
