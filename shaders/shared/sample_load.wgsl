// load is a quad of columns of a row; what is past its end has no weight.
fn load(row: u32, quad: u32) -> vec4<f32> {
    var v = vec4<f32>(LOWEST);
#if SCALAR
#for E in 0..4
    if (quad * 4u + {{E}}u < p.columns) {
        v[{{E}}] = logits[row * p.stride + quad * 4u + {{E}}u];
    }
#end
#else
    if (quad < p.stride) {
        v = logits[row * p.stride + quad];
    }
#endif
    return select(v, vec4<f32>(LOWEST), v < vec4<f32>(LOWEST)); // NaN stays
}
