    let across = lane % ACROSS;
    let down = lane / ACROSS;
    let first = workgroup.x * ROWS; // of the workgroup
    let row = first + 4u * down;    // of the invocation
    let staged = lane / 4u;         // the row, or the other, whose quad lane % 4 it stages in a step of scores
#if ROLLED
    let turns = (p.head * {{UNIT}}u + 4u * {{TURN}}u - 1u) / (4u * {{TURN}}u); // of all steps
#endif
