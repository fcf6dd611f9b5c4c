                // One K of product_loop.wgsl: row {{AT}}, {{WITHIN}} of both tiles.
#for Q in 0..SPOTS
                let ra{{Q}} = tile[turn + {{AT}}][{{WITHIN}}][0][{{Q}}][y{{ODD}}];
                let rb{{Q}} = tile[turn + {{AT}}][{{WITHIN}}][1][{{Q}}][x{{ODD}}];
#end
#for Q in 0..SPOTS
#for I in 0..4
#for J in 0..SPOTS
                c{{Q}}_{{I}}_{{J}} += ra{{Q}}[{{I}}] * rb{{J}};
#end
#end
#end
