        // What an invocation brings of {{X}}, of the columns from {{AT}} on; past the end they repeat the last one.
#for L in 0..{{BLOCKS}}
        {
            let i = index + {{L}}u * {{INVOCATIONS}}u;
            {{X}}_{{L}} = eight_{{X}}({{BASE}} + min({{AT}} + i / EIGHTS, p.t - 1u) * {{STRIDE}}, i % EIGHTS);
        }
#end
