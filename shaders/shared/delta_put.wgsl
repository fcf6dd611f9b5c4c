fn put(at: u32, i: u32, x: f32) {
    work[at + i / 4u][i & 3u] = x;
}
