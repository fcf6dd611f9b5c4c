    // What K of a product is from begin to end.
#if RAGGED
    let begin = 0u;
    let end = select(p.k, 0u, of_none);
#else
#if RAGGED_OUTER
    let begin = u32(offsets[p.z0 + z]);
    let end = u32(offsets[p.z0 + z + 1u]);
#else
    let begin = z * p.depth * p.slices;
    let end = min(p.k, begin + p.depth);
#endif
#endif
