        // The quads of the step at {{K}}, as they lie in memory.
#if PARTED
        if (index < {{LOADERS}}u) {
#else
        {
#endif
#if TRANS_A
#for I in 0..4
            {{A}}{{I}} = a_raw(min(at_{{A}}0 + {{I}}u * lda, at_{{A}}1));
#end
            at_{{A}}0 += {{STEP}}u * lda;
#else
            let quad = min({{K}} + 4u * fast, last) / 4u;
#for I in 0..4
            {{A}}{{I}} = a_raw(at_{{A}}{{I}} + quad);
#end
#endif
        }
#if PARTED
        else {{IDLE}} {
#else
        {
#endif
#if TRANS_B
            let quad = min({{K}} + 4u * fast, last) / 4u;
#for I in 0..4
            {{B}}{{I}} = b_raw(at_{{B}}{{I}} + quad);
#end
#else
#for I in 0..4
            {{B}}{{I}} = b_raw(min(at_{{B}}0 + {{I}}u * ldb, at_{{B}}1));
#end
            at_{{B}}0 += {{STEP}}u * ldb;
#endif
        }
