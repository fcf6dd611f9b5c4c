// The quad of the head that starts at at, zero past the head's end.
fn {{FN}}(at: u32, quad: u32) -> vec4<f32> {
#if SCALAR
    var r = vec4<f32>();
#for I in 0..4
    if (4u * quad + {{I}}u < HEAD_DIM) {
        r[{{I}}] = {{FROM}}[at + 4u * quad + {{I}}u];
    }
#end
    return r;
#else
#if RAGGED // no branch: loads wait for one another in branches
    return select(vec4<f32>(), {{FROM}}[at + min(quad, HEAD_DIM / 4u - 1u)], 4u * quad < HEAD_DIM);
#else
    return {{FROM}}[at + quad];
#endif
#endif
}
