    // index is the head, first the first of its rows that the invocation owns. Neighbours work on one block of rows in several heads where there are
    // enough of these, since they then meet the same number of others; else on neighbouring blocks of one head.
#if BY_HEAD
    let index = id.x;
    let first = alternating(id.y, (p.t + {{ROWS}}u - 1u) / {{ROWS}}u) * {{ROWS}}u;
#else
    let index = id.y;
    let first = id.x * {{ROWS}}u;
#endif
    if (index >= p.count || first >= p.t) {
        return;
    }
