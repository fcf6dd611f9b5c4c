// number i of a row of keys or queries, 0 past its end.
fn {{FN}}(row: u32, i: u32) -> f32 {
#if SCALAR
    if (i < KEY_DIM) {
        return {{FROM}}[row * KEY_DIM + i];
    }
    return 0.0;
#else
    return {{FROM}}[row * KEY4 + i / 4u][i & 3u];
#endif
}
