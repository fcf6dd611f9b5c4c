#if DOCUMENTS
@bind var<storage, read> seen: array<vec2<u32>>;
#endif
#if LOCAL
// The first key that a position of a sequence sees.
fn keys_first(sequence: u32, position: u32) -> u32 {
#if DOCUMENTS
    return seen[sequence * p.t + position].x;
#else
    return position + 1u - min(position + 1u, p.window);
#endif
}

// Where the positions of a sequence that see a key end.
fn positions_end(sequence: u32, key: u32) -> u32 {
#if DOCUMENTS
    return seen[sequence * p.t + key].y;
#else
    return min(key + p.window, p.t);
#endif
}
#endif
#if CAPPED
#import "shared/functions.wgsl" T=f32
#endif
