// puts a quad of a row of DIM numbers.
fn {{FN}}(row: u32, quad: u32, r: vec4<f32>) {
#if SCALAR
    let at = row * {{DIM}} + 4u * quad;
    {{TO}}[at] = r.x;
    if (4u * quad + 1u < {{DIM}}) {
        {{TO}}[at + 1u] = r.y;
    }
    if (4u * quad + 2u < {{DIM}}) {
        {{TO}}[at + 2u] = r.z;
    }
    if (4u * quad + 3u < {{DIM}}) {
        {{TO}}[at + 3u] = r.w;
    }
#else
    {{TO}}[row * ({{DIM}} / 4u) + quad] = r;
#endif
}
