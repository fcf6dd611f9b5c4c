        // Four K of {{WIDTH}} rows of {{X}}: {{TURN}}.
#for L in 0..{{BLOCKS}}
        if ({{X}}_slow{{L}} < {{ROWS}}u) {
            let half = 2u * ({{X}}_fast{{L}} % 2u); // of eight K
#for E in 0..WIDTH
            tile[into + {{X}}_to{{L}} + {{E}}u * {{PITCH}}u][half] = {{X}}_pair({{X}}_{{L}}_0, {{X}}_{{L}}_1, {{E}}u);
            tile[into + {{X}}_to{{L}} + {{E}}u * {{PITCH}}u][half + 1u] = {{X}}_pair({{X}}_{{L}}_2, {{X}}_{{L}}_3, {{E}}u);
#end
        }
#end
