        // Eights of {{X}} as they lie: {{TURN}}.
#for L in 0..{{WHOLE}}
        tile[into + {{X}}_to{{L}}] = {{X}}_eight({{X}}_{{L}}_0, {{X}}_{{L}}_{{LAST}});
#end
#for L in {{WHOLE}}..{{BLOCKS}}
        if ({{X}}_slow{{L}} < {{ROWS}}u) {
            tile[into + {{X}}_to{{L}}] = {{X}}_eight({{X}}_{{L}}_0, {{X}}_{{L}}_{{LAST}});
        }
#end
