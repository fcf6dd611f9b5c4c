        // {{TO}}_i_D += the weights of row i times the others' quads D, KEYS others at a time.
        for (var key = 0u; key < met; key += {{KEYS}}u) {
            workgroupBarrier();
#for L in 0..VALUE_LOADS
            {
                let at = lane + {{L}}u * LANES;
                let other = at / (ACROSS * {{DEPTH}}u);
                let quad = at % (ACROSS * {{DEPTH}}u);
                if (other < {{KEYS}}u) {
                    let row_of = (b * p.t + min(begin + key + other, p.t - 1u)) * {{OTHER_STRIDE}};
                    values[other / 4u][other % 4u][quad / ACROSS][quad % ACROSS] = {{ROUND}}({{OTHER}}(row_of + {{OTHER_AT}}, quad));
                }
            }
#end
            workgroupBarrier();
            for (var k = 0u; k < min({{KEY_QUADS}}u, (met - key + 3u) / 4u); k++) {
#for K in 0..4
                {
                    let w = weights[key / 4u + k][{{K}}][down];
#for D in 0..DEPTH
                    {
                        let value = values[k][{{K}}][{{D}}][across];
#for I in 0..4
                        {{TO}}_{{I}}_{{D}} += w[{{I}}] * value;
#end
                    }
#end
                }
#end
            }
        }
