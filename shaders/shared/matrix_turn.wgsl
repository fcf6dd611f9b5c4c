        // {{PIECES}} K of {{WIDTH}} rows of {{X}}: {{TURN}}.
#for L in 0..{{BLOCKS}}
        if ({{X}}_slow{{L}} < {{ROWS}}u) {
            let word = {{X}}_k{{L}} / 2u % 4u;
#for E in 0..WIDTH
            tile[into + {{X}}_to{{L}} + {{E}}u * {{PITCH}}u][word] = {{X}}_pair({{X}}_{{L}}_0, {{X}}_{{L}}_1, {{E}}u);
#for I in 3..PIECES
            tile[into + {{X}}_to{{L}} + {{E}}u * {{PITCH}}u][word + 1u] = {{X}}_pair({{X}}_{{L}}_2, {{X}}_{{L}}_{{I}}, {{E}}u);
#end
#end
        }
#end
