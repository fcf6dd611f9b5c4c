fn {{FN}}(at: u32, d: u32) -> vec4<f32> {
#if SCALAR // a head is no whole number of vec4: what is past its end is 0
    var r = vec4<f32>({{FROM}}[at + d], 0.0, 0.0, 0.0);
    if (d + 1u < HEAD_DIM) {
        r.y = {{FROM}}[at + d + 1u];
    }
    if (d + 2u < HEAD_DIM) {
        r.z = {{FROM}}[at + d + 2u];
    }
    if (d + 3u < HEAD_DIM) {
        r.w = {{FROM}}[at + d + 3u];
    }
    return r;
#else // at is in vec4, d in elements
    return {{FROM}}[at + d / 4u];
#endif
}
