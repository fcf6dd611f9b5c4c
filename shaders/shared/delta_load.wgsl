// quad of a row of DIM numbers.
fn {{FN}}(row: u32, quad: u32) -> vec4<f32> {
#if SCALAR
    let at = row * {{DIM}} + 4u * quad;
    var r = vec4<f32>({{FROM}}[at], 0.0, 0.0, 0.0);
    if (4u * quad + 1u < {{DIM}}) {
        r.y = {{FROM}}[at + 1u];
    }
    if (4u * quad + 2u < {{DIM}}) {
        r.z = {{FROM}}[at + 2u];
    }
    if (4u * quad + 3u < {{DIM}}) {
        r.w = {{FROM}}[at + 3u];
    }
    return r;
#else
    return {{FROM}}[row * ({{DIM}} / 4u) + quad];
#endif
}
