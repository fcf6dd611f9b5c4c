#for L in 0..{{BLOCKS}}
        if ({{X}}_quad{{L}} < {{ROWS}}u / 4u) {
#if K_EDGE
            let at = k + 4u * {{X}}_four{{L}};
#for I in 0..4
            let v{{I}} = select(vec4<f32>(), {{X}}_at({{X}}_base{{L}} + min(at + {{I}}u, last) * p.ld{{X}}), at + {{I}}u < end);
#end
#else
#for I in 0..4
            let v{{I}} = {{X}}_at({{X}}_from{{L}} + (k + {{I}}u) * p.ld{{X}});
#end
#endif
            let half = 2u * ({{X}}_four{{L}} % 2u); // of eight K
#for E in 0..4
            tile[{{X}}_to{{L}} + {{E}}u * {{PITCH}}u][half] = pack2x16float(vec2<f32>(v0[{{E}}], v1[{{E}}]));
            tile[{{X}}_to{{L}} + {{E}}u * {{PITCH}}u][half + 1u] = pack2x16float(vec2<f32>(v2[{{E}}], v3[{{E}}]));
#end
        }
#end
