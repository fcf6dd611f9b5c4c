fn {{FN}}(at: u32, d: u32, r: vec4<f32>) {
#if SCALAR // a head is no whole number of vec4: what is past its end is not written
    {{TO}}[at + d] = r.x;
    if (d + 1u < HEAD_DIM) {
        {{TO}}[at + d + 1u] = r.y;
    }
    if (d + 2u < HEAD_DIM) {
        {{TO}}[at + d + 2u] = r.z;
    }
    if (d + 3u < HEAD_DIM) {
        {{TO}}[at + d + 3u] = r.w;
    }
#else // at is in vec4, d in elements
    {{TO}}[at + d / 4u] = r;
#endif
}
