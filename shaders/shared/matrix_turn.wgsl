#for L in 0..{{BLOCKS}}
        if ({{X}}_eight{{L}} < {{STEP}}u / 8u) {
            let at = k + 8u * {{X}}_eight{{L}};
#for I in 0..8
            let v{{I}} = select(vec4<f32>(), {{X}}_at({{X}}_base{{L}} + min(at + {{I}}u, last) * p.ld{{X}}), at + {{I}}u < end);
#end
#for E in 0..4
            tile[{{AT}} + (4u * {{X}}_quad{{L}} + {{E}}u) * {{PITCH}}u + {{X}}_eight{{L}}] = matrix_eight(
                vec4<f32>(v0[{{E}}], v1[{{E}}], v2[{{E}}], v3[{{E}}]), vec4<f32>(v4[{{E}}], v5[{{E}}], v6[{{E}}], v7[{{E}}]),
            );
#end
        }
#end
