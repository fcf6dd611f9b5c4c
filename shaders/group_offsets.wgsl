// group_offsets: from the counts of group_count, which it makes sums over the chunks before, where the rows of each expert begin, in whole tiles. One workgroup.
#import "shared/group_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read_write> counts: array<u32>;
@bind var<storage, read_write> offsets: array<i32>;

var<workgroup> totals: array<i32, 64>;

#import "shared/main.wgsl" LANES=64
{
    var at = 0; // of the first expert of these 64
    for (var first = 0u; first < p.experts; first += 64u) {
        let e = first + lane;
        var total = 0u;
        if (e < p.experts) {
            for (var chunk = 0u; chunk < p.chunks; chunk++) {
                let count = counts[chunk * p.experts + e];
                counts[chunk * p.experts + e] = total;
                total += count;
            }
        }
        totals[lane] = i32((total + {{TILE}}u - 1u) / {{TILE}}u * {{TILE}}u);
        workgroupBarrier();
        var mine = at;
        for (var i = 0u; i < 64u; i++) {
            if (i == lane) {
                mine = at;
            }
            at += totals[i];
        }
        if (e < p.experts) {
            offsets[e] = mine;
        }
        workgroupBarrier();
    }
    if (lane == 0u) {
        offsets[p.experts] = at;
    }
}
