            // The invocations of a team hand over their parts of the scores of four neighbours: s = q k^T and e = dout v^T of each row. Every
            // invocation joins those of the row `mine` and of two neighbours, s in xy and e in zw.
#for R in 0..ROWS
            shares[team][{{R}}][0][part] = vec4<f32>(s_{{R}}.xy, e_{{R}}.xy);
            shares[team][{{R}}][1][part] = vec4<f32>(s_{{R}}.zw, e_{{R}}.zw);
#end
            workgroupBarrier();
            var joined = shares[team][mine][two][0];
#for I in 1..SPLIT
            joined += shares[team][mine][two][{{I}}];
#end
