// Chooses the range of each group's histogram: -2^e to 2^e for the least e that leaves at most one finite element in a
// thousand outside. What is kept is the exponent field of an f32 just below 2^e. Twin: tally in tally_test.go.
struct Params {
    groups: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> counts: array<u32>;

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>) {
    if (group.x < params.groups) {
        let first = group.x * {{STRIDE}}u;
        var finite = 0u;
        for (var k = 0u; k < 255u; k++) {
            finite += counts[first + k];
        }
        var field = 252u;
        var outside = counts[first + 254u] + counts[first + 253u];
        for (; field > 2u && outside + counts[first + field] <= finite / 1000u; field--) {
            outside += counts[first + field];
        }
        counts[first + {{RANGE}}u] = field;
    }
}
