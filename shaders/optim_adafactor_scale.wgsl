// u <- u (r / mean)^-1/2 c^-1/2 over tiles of matrices, an invocation a tile; r and c are the statistics of its rows and its columns, of
// which either may be v_row: the product is the same. Twin: (*optim.factoredTwin).update.
#import "shared/adafactor.wgsl"

struct Params {
    tiles: u32,
}

@bind var<uniform> params: Params;
@bind var<storage, read_write> update: array<{{T}}>;
@bind var<storage, read> table: array<Tile>;
@bind var<storage, read> rows: array<f32>; // the statistics
@bind var<storage, read> cols: array<{{T}}>; // the same
@bind var<storage, read> means: array<f32>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let i = grid_index(workgroup, workgroups, lane, {{LANES}}u);
    if (i >= params.tiles) { return; }
    let tile = table[i];
    let mean = means[tile.mean];
#for J in 0..{{ACROSS}}
    var c{{J}} = {{T}}(1.0);
    if ({{J}}u < tile.cols) { c{{J}} = 1.0 / sqrt(cols[tile.by_col + {{J}}u * tile.inner]); }
#end
    var line = tile.first;
    for (var r = 0u; r < tile.rows; r++) {
        let factor = 1.0 / sqrt(rows[tile.by_row + r * tile.row_step] / mean);
#for J in 0..{{ACROSS}}
        if ({{J}}u < tile.cols) {
            let at = line + {{J}}u * tile.inner;
            update[at] = update[at] * factor * c{{J}};
        }
#end
        line += tile.line;
    }
}
