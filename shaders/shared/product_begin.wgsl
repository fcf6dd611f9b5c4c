    // Levels of nf4 lie in workgroup memory, as product_operands.wgsl reads them.
#if B_CODES
    if (index < 16u) {
        var levels = array<f32, 16>({{LEVELS}});
        b_levels[index] = levels[index];
    }
    workgroupBarrier();
#endif
