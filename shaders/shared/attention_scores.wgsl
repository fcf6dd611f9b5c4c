        // {{TO}}_J[i] = row i . other J, along the head in steps of four quads. Rows past the end repeat the last one.
#for J in 0..COLUMNS
        var {{TO}}_{{J}} = vec4<f32>();
#end
        for (var step = 0u; step < {{STEPS}}u; step++) {
            workgroupBarrier();
#for L in 0..ROW_LOADS
            {
                let at = lane + {{L}}u * LANES;
#if UNEVEN
                if (at < 4u * ROWS) {
#endif
                let row_of = (b * p.t + min(first + at / 4u, p.t - 1u)) * {{ROW_STRIDE}};
                rows[at / 16u][at / 4u % 4u][at % 4u] = {{ROUND}}({{ROW}}(row_of + {{ROW_AT}}, 4u * step + at % 4u));
#if UNEVEN
                }
#endif
            }
#end
#for L in 0..OTHER_LOADS
            {
                let at = lane + {{L}}u * LANES;
#if UNEVEN
                if (at < 4u * OTHERS) {
#endif
                let row_of = (b * p.t + min(begin + at / 4u, p.t - 1u)) * {{OTHER_STRIDE}};
                others[at / 4u / ACROSS][at / 4u % ACROSS][at % 4u] = {{ROUND}}({{OTHER}}(row_of + {{OTHER_AT}}, 4u * step + at % 4u));
#if UNEVEN
                }
#endif
            }
#end
            workgroupBarrier();
#if ROLLED // by a bound that compilers do not know
            for (var d = 0u; d < min(4u, quads - 4u * step); d++) {
#for I in 0..4
                let r_{{I}} = rows[down][{{I}}][d];
#end
#for J in 0..COLUMNS
                {
                    let other = others[{{J}}][across][d];
#for I in 0..4
                    {{TO}}_{{J}}[{{I}}] = add_dot({{TO}}_{{J}}[{{I}}], r_{{I}}, other);
#end
                }
#end
            }
#else
#for D in 0..4
            {
#for I in 0..4
                let r_{{I}} = rows[down][{{I}}][{{D}}];
#end
#for J in 0..COLUMNS
                {
                    let other = others[{{J}}][across][{{D}}];
#for I in 0..4
                    {{TO}}_{{J}}[{{I}}] = add_dot({{TO}}_{{J}}[{{I}}], r_{{I}}, other);
#end
                }
#end
            }
#end
#endif
        }
