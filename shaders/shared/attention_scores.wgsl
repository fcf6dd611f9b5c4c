        // {{TO}}_J[i] = row i . other J, along the head in steps of HALVES times four quads. Rows past the end repeat the last one. Addresses of rows are the
        // same in all steps.
#for J in 0..COLUMNS
        var {{TO}}_{{J}} = vec4<f32>();
#end
        {
#for L in 0..ROW_LOADS
        let row_at_{{L}} = (b * p.t + min(first + staged + {{L}}u * LANES / 4u, p.t - 1u)) * {{ROW_STRIDE}} + {{ROW_AT}};
#end
#for L in 0..OTHER_LOADS
        let other_at_{{L}} = (b * p.t + min(begin + staged + {{L}}u * LANES / 4u, p.t - 1u)) * {{OTHER_STRIDE}} + {{OTHER_AT}};
#end
        for (var step = 0u; step < {{STEPS}}u; step++) {
            workgroupBarrier();
            let quad = 4u * {{HALVES}}u * step + lane % 4u;
#for L in 0..ROW_LOADS
#if ROWS_UNEVEN
            if (lane < 4u * ROWS - {{L}}u * LANES) {
#endif
#for H in 0..HALVES
            rows[{{H}}][staged / 4u + {{L}}u * LANES / 16u][staged % 4u][lane % 4u] = {{ROUND}}({{ROW}}(row_at_{{L}}, quad + 4u * {{H}}u));
#end
#if ROWS_UNEVEN
            }
#endif
#end
#for L in 0..OTHER_LOADS
#if OTHERS_UNEVEN
            if (lane < 4u * OTHERS - {{L}}u * LANES) {
#endif
#for H in 0..HALVES
            others[{{STAGED_COLUMN}} + {{L}}u * DOWN / 4u + {{H}}u * {{COLUMNS}}u][{{STAGED_ACROSS}}][lane % 4u] =
                {{ROUND}}({{OTHER}}(other_at_{{L}}, quad + 4u * {{H}}u));
#end
#if OTHERS_UNEVEN
            }
#endif
#end
            workgroupBarrier();
#if ROLLED // by a bound that compilers do not know: a quad a turn, or four
            for (var turn = 0u; turn < min({{TURNS}}u, turns - {{TURNS}}u * step); turn++) {
#for D in 0..TURN
                {
#for I in 0..4
                    let r_{{I}} = rows[{{TURN_HALF}}][down][{{I}}][{{TURN_QUAD}} + {{D}}u];
#end
#for J in 0..COLUMNS
                    {
                        let other = others[{{J}}u + {{TURN_HALF}} * {{COLUMNS}}u][across][{{TURN_QUAD}} + {{D}}u];
#for I in 0..4
                        {{TO}}_{{J}}[{{I}}] = add_dot({{TO}}_{{J}}[{{I}}], r_{{I}}, other);
#end
                    }
#end
                }
#end
            }
#else
#for H in 0..HALVES
#for D in 0..4
            {
#for I in 0..4
                let r_{{I}} = rows[{{H}}][down][{{I}}][{{D}}];
#end
#for J in 0..COLUMNS
                {
                    let other = others[{{J}}u + {{H}}u * {{COLUMNS}}u][across][{{D}}];
#for I in 0..4
                    {{TO}}_{{J}}[{{I}}] = add_dot({{TO}}_{{J}}[{{I}}], r_{{I}}, other);
#end
                }
#end
            }
#end
#end
#endif
        }
        }
