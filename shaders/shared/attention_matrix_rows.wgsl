    // The workgroup's rows of {{X}} go to workgroup memory.
    for (var i = index; i < ROWS * EIGHTS; i += {{INVOCATIONS}}u) {
        tile[{{AT}} + i / EIGHTS * PITCH + i % EIGHTS] = eight_{{X}}({{BASE}} + min(first + i / EIGHTS, p.t - 1u) * {{STRIDE}}, i % EIGHTS);
    }
