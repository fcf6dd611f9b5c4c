// Eight numbers in f16 of the head that starts at at, in quads.
fn {{FN}}(at: u32, eight: u32) -> vec4<u32> { return {{LOAD}}; }
