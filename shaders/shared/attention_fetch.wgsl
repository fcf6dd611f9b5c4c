        // What an invocation brings of {{X}}, of the columns from {{AT}} on; past the end they repeat the last one.
#for L in 0..{{BLOCKS}}
        {{X}}_{{L}} = eight_{{X}}({{BASE}} + min({{AT}} + (index + {{L}}u * {{INVOCATIONS}}u) / EIGHTS, p.t - 1u) * {{STRIDE}}, (index + {{L}}u * {{INVOCATIONS}}u) % EIGHTS);
#end
