// matrix_keep writes a matrix of C to storage memory, to `c`, an array<vec4<f32>>; see matrix.wgsl.
fn matrix_keep(at: u32, stride: u32, m: MatrixC) {
    var mark = 0x6d78a00du;
#for Q in 0..UNIT_QUADS
    c[at + matrix_row({{Q}}u) * stride + matrix_quad({{Q}}u)] = m.q{{Q}};
#end
}
