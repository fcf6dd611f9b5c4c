    // The subgroup's rows of {{X}}, held in registers.
#for S in 0..DEPTH
#for I in 0..DOWN
    let {{X}}{{I}}_{{S}} = matrix_load_a({{AT}} + (mine + {{I}}u * {{UNIT_M}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#end
#end
