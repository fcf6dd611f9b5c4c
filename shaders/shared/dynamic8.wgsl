// Numbers in codes of eight bits, four to a u32, as bitsandbytes has them: the largest magnitude of a block times one of 256 levels. Decade i of seven,
// 10^(i-6) (0.1, 1], is in FIRST 2^i equal cells, whose middles are levels; so are 0 and 1. FIRST is 1 for each sign, 2 without signs.
// Cells are counted from the smallest: cell j of a decade of n is n + j, 1 is 128 FIRST. Twin: levels in optim/levels.go.

// dynamic8_level is the level of a cell, 0 of the cells below FIRST.
fn dynamic8_level(cell: vec4<u32>, first: u32) -> vec4<f32> {
    let x = vec4<f32>(cell);
    let cells = bitcast<vec4<u32>>(x) & vec4<u32>(0x7f800000u); // of its decade, as a number, which is a power of two
    let part = (x - bitcast<vec4<f32>>(cells) + 0.5) * bitcast<vec4<f32>>(vec4<u32>(0x7f000000u) - cells);
    let down = vec4<u32>(132u + first) - (cells >> vec4<u32>(23u)); // decades below the last
    let power = select(vec4<f32>(1.0), vec4<f32>(0.1), (down & vec4<u32>(1u)) != vec4<u32>(0u))
        * select(vec4<f32>(1.0), vec4<f32>(0.01), (down & vec4<u32>(2u)) != vec4<u32>(0u))
        * select(vec4<f32>(1.0), vec4<f32>(0.0001), (down & vec4<u32>(4u)) != vec4<u32>(0u));
    let level = select(power * (0.1 + 0.9 * part), vec4<f32>(1.0), cell == vec4<u32>(128u * first));
    return select(level, vec4<f32>(0.0), cell < vec4<u32>(first));
}

// dynamic8_cell is the cell of the level nearest to x of [0, 1], halfway the larger; first-1 stands for 0. Halfway between two decades is 0.18/n of a
// decade beyond its 0.1, where it has n cells: a fifth of its first cell.
fn dynamic8_cell(x: vec4<f32>, first: u32) -> vec4<u32> {
    var n = f32(64u * first);
    var power = 1.0;
    var scale = vec4<f32>(1.0);
    var cells = vec4<f32>(n);
    for (var i = 0u; i < 6u; i++) {
        let below = x < vec4<f32>((0.1 + 0.18 / n) / power);
        n = 0.5 * n;
        power = 10.0 * power;
        scale = select(scale, vec4<f32>(power), below);
        cells = select(cells, vec4<f32>(n), below);
    }
    let j = clamp(floor((x * scale - 0.1) * (cells * (1.0 / 0.9))), vec4<f32>(0.0), cells - 1.0);
    let cell = select(vec4<u32>(cells + j), vec4<u32>(128u * first), x >= vec4<f32>(1.0 - 0.003515625 / f32(first)));
    return select(cell, vec4<u32>(first - 1u), x < vec4<f32>(0.5e-6 * (0.1 + 0.45 / f32(first))));
}

fn dynamic8_split(word: u32) -> vec4<u32> { return vec4<u32>(word, word >> 8u, word >> 16u, word >> 24u) & vec4<u32>(0xffu); }

fn dynamic8_join(c: vec4<u32>) -> u32 { return c.x | (c.y << 8u) | (c.z << 16u) | (c.w << 24u); }

// dynamic8_of_signed are the levels of codes: 127 is 0, codes below it are the negative levels.
fn dynamic8_of_signed(word: u32) -> vec4<f32> {
    let code = vec4<i32>(dynamic8_split(word)) - vec4<i32>(127);
    let level = dynamic8_level(vec4<u32>(abs(code)), 1u);
    return select(level, -level, code < vec4<i32>(0));
}

fn dynamic8_of_unsigned(word: u32) -> vec4<f32> { return dynamic8_level(dynamic8_split(word) + vec4<u32>(1u), 2u); }

// dynamic8_signed are the codes of four numbers of a block, none of which is beyond its largest magnitude.
fn dynamic8_signed(x: vec4<f32>, largest: f32) -> u32 {
    let cell = vec4<i32>(dynamic8_cell(abs(x) / select(largest, 1.0, largest == 0.0), 1u));
    return dynamic8_join(vec4<u32>(vec4<i32>(127) + select(cell, -min(cell, vec4<i32>(127)), x < vec4<f32>(0.0))));
}

fn dynamic8_unsigned(x: vec4<f32>, largest: f32) -> u32 {
    return dynamic8_join(dynamic8_cell(abs(x) / select(largest, 1.0, largest == 0.0), 2u) - vec4<u32>(1u));
}

// dynamic8_top are the bits of the largest magnitude of four numbers; those of infinity and of what is no number are larger than any number's.
fn dynamic8_top(x: vec4<f32>) -> u32 {
    let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// dynamic8_largest is the number of these bits; one below the least that has all of its bits is 0.
fn dynamic8_largest(bits: u32) -> f32 { return bitcast<f32>(select(bits, 0u, bits < 0x00800000u)); }
