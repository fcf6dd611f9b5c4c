    // The rows of C from row0 to m that a workgroup's tile of {{ROWS}} has some of, and which of the products it is of, z.
    // RAGGED: rows are sorted by expert, those of expert e from offsets[e] on, and experts' products have matrices B of their own. The tiles of expert e are the
    // rows of workgroups from offsets[e] / {{ROWS}} + e on, of which one may be left without rows. Rows behind those of all experts, p.slices of them, are zeros.
    // B has p.count matrices, of experts from p.z0 on. RAGGED_OUTER: of each expert from p.z0 on it is a product along its rows.
#if RAGGED
    var expert = 0u;
    var high = p.slices;
    while (expert < high) {
        let middle = (expert + high + 1u) / 2u;
        if (u32(offsets[middle]) / {{ROWS}}u + middle <= wg.y) {
            expert = middle;
        } else {
            high = middle - 1u;
        }
    }
    let first_row = u32(offsets[expert]);
    let row0 = first_row + (wg.y - first_row / {{ROWS}}u - expert) * {{ROWS}}u;
    let of_none = expert == p.slices;
    var m = p.m;
    var z = 0u;
    if (!of_none) {
        m = u32(offsets[expert + 1u]);
        z = expert - p.z0; // wraps for what lies before the part
    }
    if (row0 >= m || z >= p.count || (of_none && p.z0 > 0u)) {
        return;
    }
#else
    let m = p.m;
    let row0 = wg.y * {{ROWS}}u;
#if RAGGED_OUTER
    let z = wg.z;
#else
    let z = p.z0 + wg.z;
#endif
#endif
