#import "shared/row.wgsl"

fn row_max(x: {{T}}, lane: u32) -> f32 {
#if VECTOR
    let m = max(max(x.x, x.y), max(x.z, x.w));
#else
    let m = x;
#endif
#if GROUP
    workgroupBarrier();
    row_parts[lane] = m;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step >>= 1u) {
        if (lane < step) { row_parts[lane] = max(row_parts[lane], row_parts[lane + step]); }
        workgroupBarrier();
    }
    return row_parts[0];
#else
    return m;
#endif
}
