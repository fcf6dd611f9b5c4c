// {{CODES}}: the numbers that codes of four bits stand for in a block whose largest magnitude is 1. A byte has the first of two
// elements in its high half. Twin: {{CODES}}.Levels.
#if TABLE
var<private> {{CODES}}_table: array<f32, 16> = array<f32, 16>({{LEVELS}});

// {{CODES}}_levels are those of the first four of the eight codes of w.
fn {{CODES}}_levels(w: u32) -> vec4<f32> {
    return vec4<f32>({{CODES}}_table[(w >> 4u) & 15u], {{CODES}}_table[w & 15u], {{CODES}}_table[(w >> 12u) & 15u], {{CODES}}_table[(w >> 8u) & 15u]);
#else
const {{CODES}}_level = array<f32, 16>({{LEVELS}});

// {{CODES}}_levels are those of the first four of the eight codes of w, chosen by their bits: a GPU would keep a table in memory.
fn {{CODES}}_levels(w: u32) -> vec4<f32> {
    let c = vec4<u32>(w) >> vec4<u32>(4u, 0u, 12u, 8u);
    let zero = vec4<u32>();
    let b0 = (c & vec4<u32>(1u)) != zero;
    let b1 = (c & vec4<u32>(2u)) != zero;
    let b2 = (c & vec4<u32>(4u)) != zero;
    let b3 = (c & vec4<u32>(8u)) != zero;
#for I in 0..8
    let x{{I}} = select(vec4<f32>({{CODES}}_level[2 * {{I}}]), vec4<f32>({{CODES}}_level[2 * {{I}} + 1]), b0);
#end
    let low = select(select(x0, x1, b1), select(x2, x3, b1), b2);
    let high = select(select(x4, x5, b1), select(x6, x7, b1), b2);
    return select(low, high, b3);
#endif
}
