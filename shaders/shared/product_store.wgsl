#if CONTINUE
// Quad i of the row of C that begins at line, which ends at N.
fn held(line: u32, i: u32) -> vec4<f32> {
    var v = vec4<f32>();
#if STORE_SCALAR
#for E in 0..4
    if (4u * i + {{E}}u < p.n) {
        v[{{E}}] = c[line + 4u * i + {{E}}u];
    }
#end
#else
    if (4u * i < p.n) {
        v = c[line + i];
    }
#endif
    return v;
}

#endif
// Writes it, or adds to it; later: in a block that is not the first.
#if BLOCKS
fn put(line: u32, i: u32, v: vec4<f32>, later: bool) {
#else
fn put(line: u32, i: u32, v: vec4<f32>) {
#endif
#if STORE_SCALAR
#for E in 0..4
    if (4u * i + {{E}}u < p.n) {
#if ACCUMULATE
        c[line + 4u * i + {{E}}u] += v[{{E}}];
#else
        c[line + 4u * i + {{E}}u] = v[{{E}}];
#endif
    }
#end
#else
    if (4u * i < p.n) {
#if EPILOGUE
        finish(line + i, v);
#else
#if ACCUMULATE
        c[line + i] += v;
#else
#if BLOCKS
        c[line + i] = select(v, c[line + i] + v, later);
#else
        c[line + i] = v;
#endif
#endif
#endif
    }
#endif
}
