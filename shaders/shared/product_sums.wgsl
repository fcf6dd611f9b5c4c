#if SUMS
// Writes quad i of the sums of B's columns, which the first row of tiles makes of what it multiplies: to a buffer of their own, or in the row below C, which
// begins at line.
#if SUMS_APART
@bind var<storage, read_write> sums: array<vec4<f32>>;
#endif
fn put_sums(line: u32, i: u32, v: vec4<f32>) {
#if SUMS_APART
    if (4u * i < p.n) {
#if SUMS_ADD
        sums[i] += v;
#else
        sums[i] = v;
#endif
    }
#else
    put(line, i, v);
#endif
}
#endif
