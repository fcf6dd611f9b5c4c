        // {{TO}}_i_D += the weights of row i times the others' quads D, KEYS others at a time, which take the place of the operands of scores.
        {
        let last = (b * p.t + p.t - 1u) * {{OTHER_STRIDE}} + {{OTHER_AT}};
        var value_at = (b * p.t + begin + down % KEYS) * {{OTHER_STRIDE}} + {{OTHER_AT}};
        for (var key = 0u; key < met; key += KEYS) {
            workgroupBarrier();
#for L in 0..VALUE_LOADS
            {
                let part = down / KEYS + {{L}}u * DOWN / KEYS;
#if VALUES_UNEVEN
                if (part < {{DEPTH}}u) {
#endif
                let other = down % KEYS + {{L}}u * DOWN % KEYS;
                others[other / 4u * {{DEPTH}}u + part][across][other % 4u] =
                    {{ROUND}}({{OTHER}}(min(value_at + {{L}}u * DOWN % KEYS * {{OTHER_STRIDE}}, last), across + part * ACROSS));
#if VALUES_UNEVEN
                }
#endif
            }
#end
            value_at += KEYS * {{OTHER_STRIDE}};
            workgroupBarrier();
            for (var k = 0u; k < min({{KEY_QUADS}}u, (met - key + 3u) / 4u); k++) {
#for K in 0..4
                {
                    let w = weights[key / 4u + k][{{K}}][down];
#for D in 0..DEPTH
                    {
                        let value = others[k * {{DEPTH}}u + {{D}}u][across][{{K}}];
#for I in 0..4
                        {{TO}}_{{I}}_{{D}} += w[{{I}}] * value;
#end
                    }
#end
                }
#end
            }
        }
        }
