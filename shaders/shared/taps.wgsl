// tap j of an item of channels.
fn tap(item: u32, j: u32) -> {{T}} {
#if SCALAR
    return w[item * {{TAPS}}u + j];
#else
    let at = item * 4u * {{TAPS}}u + j;
    return vec4<f32>(w[at], w[at + {{TAPS}}u], w[at + 2u * {{TAPS}}u], w[at + 3u * {{TAPS}}u]);
#endif
}
