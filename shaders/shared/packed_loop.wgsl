    // The loop along K of matmul.wgsl for a B in {{CODES}} whose rows are whole blocks. A load has 32 codes. In scope as there.
#if TRANS_B
    // Rows of B lie along K: blocks of 64 have two loads of four words of eight elements. Component i of a vector is of column i of a quad.
    for (var block = begin; block < end; block += 64u) {
#for J in 0..COLS
        let m{{J}} = vec4<f32>(
            b_maxima[(b_{{J}}_0 + block / 4u) / 16u], b_maxima[(b_{{J}}_1 + block / 4u) / 16u],
            b_maxima[(b_{{J}}_2 + block / 4u) / 16u], b_maxima[(b_{{J}}_3 + block / 4u) / 16u]);
#end
        for (var part = block; part < min(block + 64u, end); part += 32u) {
#for J in 0..COLS
#for I in 0..4
            var w{{J}}_{{I}} = b[(b_{{J}}_{{I}} + part / 4u) / 8u];
#end
#end
            let part_end = min(part + 32u, end);
            for (var k = part; k < part_end; k += 4u) {
                let second = (k & 4u) != 0u; // half of the word, after which comes the next
#for Q in 0..QUADS
#for I in 0..LANES
                let ra{{Q}}_{{I}} = a[a_{{Q}}_{{I}} + k / 4u];
#end
#end
#for J in 0..COLS
                {
#for I in 0..4
                    let t{{I}} = m{{J}}[{{I}}] * {{CODES}}_levels(w{{J}}_{{I}}.x);
                    w{{J}}_{{I}} = select(vec4<u32>(w{{J}}_{{I}}.x >> 16u, w{{J}}_{{I}}.yzw), w{{J}}_{{I}}.yzwx, second);
#end
#for K in 0..4
                    let rb{{K}} = vec4<f32>(t0[{{K}}], t1[{{K}}], t2[{{K}}], t3[{{K}}]);
#end
#for Q in 0..QUADS
#for I in 0..LANES
#for K in 0..4
                    c{{Q}}_{{I}}_{{J}} += ra{{Q}}_{{I}}[{{K}}] * rb{{K}};
#end
#end
#end
                }
#end
            }
        }
#else
    // Rows of B lie across K: the columns of an invocation, 8 or (PAIR) 16, are of one load and one block.
#if PAIR
    let odd = col / 4u % 2u == 1u; // the second half of the load
#endif
    for (var k = begin; k < end; k += 4u) {
        let k4 = k / 4u;
#for Q in 0..QUADS
#for I in 0..LANES
        let ra{{Q}}_{{I}} = a[a_{{Q}}_{{I}} + k4];
#end
#end
#for K in 0..4
        let at{{K}} = b_0 + (k + {{K}}u) * p.ldb;
        let m{{K}} = b_maxima[at{{K}} / 16u];
        let w{{K}} = b[at{{K}} / 8u];
#if PAIR
        let x{{K}} = select(w{{K}}.xy, w{{K}}.zw, odd);
#else
        let x{{K}} = vec2<u32>(w{{K}}[at{{K}} / 2u % 4u]);
#endif
#end
#for J in 0..COLS
        {
#for K in 0..4
            let rb{{K}} = m{{K}} * {{CODES}}_levels(x{{K}}[{{J}} / 2] >> (16u * ({{J}}u % 2u)));
#end
#for Q in 0..QUADS
#for I in 0..LANES
#for K in 0..4
            c{{Q}}_{{I}}_{{J}} += ra{{Q}}_{{I}}[{{K}}] * rb{{K}};
#end
#end
#end
        }
#end
#endif
    }
