        // The subgroup's rows of {{A}} by the columns add to s, those of {{B}} by the other columns to e; rows that are not held are read a step at a time.
#for S in 0..DEPTH
#for I in 0..DOWN
#if !FIRST_HELD
        let {{A}}{{I}}_{{S}} = matrix_load_a({{FIRST}}u + (mine + {{I}}u * {{UNIT_M}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#endif
#if !SECOND_HELD
        let {{B}}{{I}}_{{S}} = matrix_load_a({{SECOND}}u + (mine + {{I}}u * {{UNIT_M}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#endif
#end
#for J in 0..ACROSS
        {
            let of_s = matrix_load_b({{J}}u * {{UNIT_N}}u * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
            let of_e = matrix_load_b((COLUMNS + {{J}}u * {{UNIT_N}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#for I in 0..DOWN
            s{{I}}_{{J}} = matrix_mul_add({{A}}{{I}}_{{S}}, of_s, s{{I}}_{{J}});
            e{{I}}_{{J}} = matrix_mul_add({{B}}{{I}}_{{S}}, of_e, e{{I}}_{{J}});
#end
        }
#end
#end
