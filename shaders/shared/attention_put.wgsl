        // It goes to workgroup memory from {{AT}} on.
#for L in 0..{{BLOCKS}}
        {
            let i = index + {{L}}u * {{INVOCATIONS}}u;
#if UNEVEN
            if (i < COLUMNS * EIGHTS) {
                tile[{{AT}} + i / EIGHTS * PITCH + i % EIGHTS] = {{X}}_{{L}};
            }
#else
            tile[{{AT}} + i / EIGHTS * PITCH + i % EIGHTS] = {{X}}_{{L}};
#endif
        }
#end
