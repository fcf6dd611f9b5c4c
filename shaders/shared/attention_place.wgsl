    let across = lane % ACROSS;
    let down = lane / ACROSS;
    let first = workgroup.x * ROWS; // of the workgroup
    let row = first + 4u * down;    // of the invocation
#if ROLLED
#if SCALAR
    let quads = (p.head + 3u) / 4u;
#else
    let quads = p.head;
#endif
#endif
