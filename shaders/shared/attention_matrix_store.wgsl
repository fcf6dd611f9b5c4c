    matrix_barrier();
#for I in 0..DOWN
#for W in 0..WIDE
    matrix_store(own, OWN_PITCH, {{X}}{{I}}_{{W}});
    matrix_barrier();
#for Q in 0..UNIT_QUADS
    {
        let e = matrix_lane + {{Q}}u * {{LANES}}u;
        let row = first + mine + {{I}}u * {{UNIT_M}}u + e / ({{UNIT_N}}u / 4u);
        if (row < p.t) {
            {{TO}}[{{AT}} + row * {{STRIDE}} + {{W}}u * {{UNIT_N}}u / 4u + e % ({{UNIT_N}}u / 4u)] =
                {{SCALE}} * bitcast<vec4<f32>>(tile[own + e / ({{UNIT_N}}u / 4u) * OWN_PITCH + e % ({{UNIT_N}}u / 4u)]);
        }
    }
#end
    matrix_barrier();
#end
#end
