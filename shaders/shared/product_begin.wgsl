    // Levels of nf4 lie in workgroup memory, as product_operands.wgsl reads them.
#if B_NF4
    if (index < 16u) {
        var levels = array<f32, 16>({{LEVELS}});
        b_levels[index] = levels[index];
    }
    workgroupBarrier();
#endif
