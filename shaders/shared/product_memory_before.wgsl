// The operands of a step of product_loop.wgsl: [K in fours][K in a four][quads along M or N, one of padding against bank conflicts]. A row's
// place in its four is known where the products are made, so that neither its bound is checked nor its address computed there.
var<workgroup> tile_a: array<array<array<vec4<f32>, {{PITCH}}>, 4>, {{FOURS}}>;
var<workgroup> tile_b: array<array<array<vec4<f32>, {{PITCH}}>, 4>, {{FOURS}}>;
