// What an update is left out for beside a gradient that is not finite: the sum of its losses is not, or is beyond its limit, or a norm
// is beyond its own. A limit of 0 is none. Twin: (*optim.Twin).guarded.
struct Params {
    norm: u32,     // the entry of statistics that has just come
    losses: u32,   // how many there are; 0: the norm is not the gradient's
    update: u32,   // 1: the norm is the update's
}

@bind var<uniform> params: Params;
@bind var<storage, read> guard: array<f32>; // limits of the loss, the gradient's norm and the update's; 0; the losses
@bind var<storage, read_write> statistics: array<vec4<u32>>;

@compute @workgroup_size({{LANES}})
fn main(@builtin(local_invocation_index) lane: u32) {
    if (lane == 0u) {
        let entry = statistics[params.norm];
        let norm = bitcast<f32>(entry.x);
        var found = 0u;
        if (params.losses > 0u) {
            var loss = 0.0;
            for (var i = 0u; i < params.losses; i++) {
                loss += guard[4u + i];
            }
            // By the bits, as arithmetic may assume that there is nothing of the kind.
            let finite = (bitcast<u32>(loss) & 0x7f800000u) != 0x7f800000u;
            found |= select(1u, 0u, finite);
            found |= select(0u, 2u, finite && guard[0] > 0.0 && loss > guard[0]);
            found |= select(0u, 4u, guard[1] > 0.0 && norm > guard[1]);
        }
        if (params.update > 0u) {
            found |= entry.y;
            found |= select(0u, 8u, guard[2] > 0.0 && norm > guard[2]);
        }
        let was = statistics[0];
        if (found != 0u) {
            statistics[0] = vec4<u32>(was.x, was.y | found, was.z, was.w + select(0u, 1u, was.y == 0u));
        }
    }
}
