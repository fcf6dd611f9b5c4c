// Whether a position sees a key, and for the loops of a workgroup where the keys that a position sees end, and where the positions that see a
// key begin.
fn sees(position: u32, key: u32) -> bool {
    return key < keys_end(position) && position < p.t;
}

fn keys_end(position: u32) -> u32 {
#if CAUSAL
    return min(position + 1u, p.t);
#else
    return p.t;
#endif
}

fn positions_begin(key: u32) -> u32 {
#if CAUSAL
    return key;
#else
    return 0u;
#endif
}

// The score of the product of a query and a key.
fn scored(product: f32) -> f32 {
#if CAPPED
    return p.cap * f_tanh(product * p.scale / p.cap);
#else
    return product * p.scale;
#endif
}
#if CAPPED

// The derivative of a score for what it was before the cap.
fn slope(product: f32) -> f32 {
    let bounded = f_tanh(product * p.scale / p.cap);
    return 1.0 - bounded * bounded;
}
#endif

// The weight that a position gives to a key, for the backward pass.
fn weight(position: u32, key: u32, product: f32, lse: f32) -> f32 {
    return select(0.0, exp(scored(product) - lse), sees(position, key));
}
