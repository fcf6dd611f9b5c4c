        // What an invocation brings of {{X}} for the step that begins at `at`, {{AT}}; past the end of K is 0.
#for L in 0..{{BLOCKS}}
#for I in 0..PIECES
#if K_EDGE
        {
            let within = at + {{X}}_k{{L}} + {{I}}u * {{REACH}}u < end;
            {{X}}_{{L}}_{{I}} = select({{TYPE}}(), {{X}}_at(select({{X}}base, {{X}}_from{{L}} + {{X}}_along(at) + {{I}}u * {{NEXT}}, within)), within);
        }
#else
        {{X}}_{{L}}_{{I}} = {{X}}_at({{X}}_from{{L}} + {{X}}_along(at) + {{I}}u * {{NEXT}});
#endif
#end
#end
