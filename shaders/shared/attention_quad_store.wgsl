fn {{FN}}(at: u32, quad: u32, r: vec4<f32>) {
#if SCALAR
#for I in 0..4
    if (4u * quad + {{I}}u < HEAD_DIM) {
        {{TO}}[at + 4u * quad + {{I}}u] = r[{{I}}];
    }
#end
#else
#if RAGGED
    if (4u * quad >= HEAD_DIM) {
        return;
    }
#endif
    {{TO}}[at + quad] = r;
#endif
}
