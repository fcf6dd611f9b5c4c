// The operands of a step of product_loop.wgsl: [K in fours][K in a four][A or B][spot][invocation along the side], quads along M or N. All that a
// product reads of a K lies at distances from one quad that are known when it is compiled.
var<workgroup> tile: array<array<array<array<array<vec4<f32>, {{SIDE}}>, {{SPOTS}}>, 2>, 4>, {{ROWS}}>;

// Stores a quad of each K of a four. Eight neighbours that store at once have two fours: quads of odd ones change places, so that no two meet in a bank.
fn stage(four: u32, operand: u32, place: u32, k0: vec4<f32>, k1: vec4<f32>, k2: vec4<f32>, k3: vec4<f32>) {
    let at = place ^ ({{SWAP}}u * (four % 2u));
#for K in 0..4
    tile[four][{{K}}][operand][at / {{SIDE}}u][at % {{SIDE}}u] = k{{K}};
#end
}

// The same of quads along K, of four rows.
fn stage_across(four: u32, operand: u32, place: u32, r0: vec4<f32>, r1: vec4<f32>, r2: vec4<f32>, r3: vec4<f32>) {
    stage(four, operand, place, vec4<f32>(r0.x, r1.x, r2.x, r3.x), vec4<f32>(r0.y, r1.y, r2.y, r3.y),
        vec4<f32>(r0.z, r1.z, r2.z, r3.z), vec4<f32>(r0.w, r1.w, r2.w, r3.w));
}
#if SUMS

// Where the quad of B in column `place` of a step's K lies, of the step at `turn`; and a place for a sum of these, when all steps are done.
fn staged(turn: u32, k: u32, place: u32) -> vec4<f32> {
    let at = place ^ ({{SWAP}}u * (k / 4u % 2u));
    return tile[turn + k / 4u][k % 4u][1][at / {{SIDE}}u][at % {{SIDE}}u];
}

fn stage_sum(k: u32, place: u32, v: vec4<f32>) {
    let at = place ^ ({{SWAP}}u * (k / 4u % 2u));
    tile[k / 4u][k % 4u][1][at / {{SIDE}}u][at % {{SIDE}}u] = v;
}
#endif
