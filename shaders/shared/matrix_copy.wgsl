#for L in 0..{{BLOCKS}}
        if ({{X}}_row{{L}} < {{ROWS}}u) {
            let at = k + 8u * {{X}}_eight{{L}};
#if K_EDGE
            let low = select(vec4<f32>(), {{X}}_at({{X}}_base{{L}} + min(at, last) / 4u), at < end);
            let high = select(vec4<f32>(), {{X}}_at({{X}}_base{{L}} + min(at + 4u, last) / 4u), at + 4u < end);
#else
            let low = {{X}}_at({{X}}_base{{L}} + at / 4u);
            let high = {{X}}_at({{X}}_base{{L}} + at / 4u + 1u);
#endif
            tile[{{AT}} + {{X}}_row{{L}} * {{PITCH}}u + {{X}}_eight{{L}}] = matrix_eight(low, high);
        }
#end
