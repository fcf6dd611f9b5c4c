// Sums and maxima over a row, and where in it an invocation works. GROUP: a workgroup of 64 shares a row, each lane taking
// every 64th item; else an invocation has a row to itself, which software adapters prefer to workgroup memory.
#import "shared/grid.wgsl"

fn row_fold(x: {{T}}) -> f32 {
#if VECTOR
    return (x.x + x.y) + (x.z + x.w);
#else
    return x;
#endif
}

#if GROUP
const row_lanes = 64u;
var<workgroup> row_parts: array<f32, 64>;

fn row_index(workgroup: vec3<u32>, workgroups: vec3<u32>, local: u32) -> u32 {
    return grid_index(workgroup, workgroups, 0u, 1u);
}

fn row_sum(x: {{T}}, lane: u32) -> f32 {
    workgroupBarrier();
    row_parts[lane] = row_fold(x);
    workgroupBarrier();
    for (var step = 32u; step > 0u; step >>= 1u) {
        if (lane < step) { row_parts[lane] += row_parts[lane + step]; }
        workgroupBarrier();
    }
    return row_parts[0];
}
#else
const row_lanes = 1u;

fn row_index(workgroup: vec3<u32>, workgroups: vec3<u32>, local: u32) -> u32 {
    return grid_index(workgroup, workgroups, local, 64u);
}

fn row_sum(x: {{T}}, lane: u32) -> f32 { return row_fold(x); }
#endif

fn row_lane(local: u32) -> u32 {
#if GROUP
    return local;
#else
    return 0u;
#endif
}
