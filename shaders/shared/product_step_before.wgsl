                // One K of product_loop.wgsl: row {{AT}}, {{WITHIN}} of both tiles.
#for Q in 0..SPOTS
                let ra{{Q}} = tile_a[{{AT}}][{{WITHIN}}][y4 + {{Q}}u * {{SIDE}}u];
                let rb{{Q}} = tile_b[{{AT}}][{{WITHIN}}][x4 + {{Q}}u * {{SIDE}}u];
#end
#for Q in 0..SPOTS
#for I in 0..4
#for J in 0..SPOTS
                c{{Q}}_{{I}}_{{J}} += ra{{Q}}[{{I}}] * rb{{J}};
#end
#end
#end
