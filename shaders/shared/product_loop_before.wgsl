    // The products of a tile of C along K, {{STEP}} of K at a time, through workgroup memory. In scope: a[abase...] and b_at(bbase...), row
    // strides p.lda and p.ldb; K from begin to end; m rows and n columns of C, row4 and col4 the first quads of the tile; index, of the
    // invocation, which has quads y4, y4 + {{SIDE}}, ... by x4, x4 + {{SIDE}}, ... of the tile; c0_0_0, ... that the products add to, k ascending.
    // ROLLED: one K a turn, where registers do not hold the sums of an unrolled loop.
    // Rows and columns past an edge read the last ones, so that loads need no branch and one wait serves them all; past the end of K is 0.
    let last = max(end, 1u) - 1u;
    let spot = index % {{QUADS}}u; // contiguous along M or N: quad `spot` of {{LOADS}} rows from k = part on
    let part = index / {{QUADS}}u * {{LOADS}}u;
    let fast = index % {{FOURS}}u; // contiguous along K: quad `slow` of four rows at k = 4*fast
    let slow = index / {{FOURS}}u % {{QUADS}}u;
#if TRANS_A
    let column_a = abase + min(row4 + spot, (m + 3u) / 4u - 1u);
    let edge_a = column_a + last * p.lda;
    var at_a = column_a + (begin + part) * p.lda; // moves with k
#else
#for I in 0..4
    let at_a{{I}} = abase + min(4u * (row4 + slow) + {{I}}u, m - 1u) * p.lda;
#end
#endif
#if TRANS_B
#for I in 0..4
    let at_b{{I}} = bbase + min(4u * (col4 + slow) + {{I}}u, n - 1u) * p.ldb;
#end
#else
    let column_b = bbase + min(col4 + spot, (n + 3u) / 4u - 1u);
    let edge_b = column_b + last * p.ldb;
    var at_b = column_b + (begin + part) * p.ldb; // moves with k
#endif
    for (var k = begin; k < end; k += {{STEP}}u) {
        let quad = min(k + 4u * fast, last) / 4u;
        let within = k + 4u * fast < end;
#if TRANS_A
#for I in 0..LOADS
        let a{{I}} = select(vec4<f32>(), {{A_LOAD}}(a[min(at_a + {{I}}u * p.lda, edge_a)]), k + part + {{I}}u < end);
#end
        at_a += {{STEP}}u * p.lda;
#endif
#if !TRANS_B
#for I in 0..LOADS
        let b{{I}} = select(vec4<f32>(), b_at(min(at_b + {{I}}u * p.ldb, edge_b)), k + part + {{I}}u < end);
#end
        at_b += {{STEP}}u * p.ldb;
#endif
#if !TRANS_A
#if WIDE
        if (index < {{QUADS}}u * {{FOURS}}u) {
#else
        {
#endif
#for I in 0..4
            let a{{I}} = select(vec4<f32>(), {{A_LOAD}}(a[at_a{{I}} + quad]), within);
#end
#for I in 0..4
            tile_a[fast][{{I}}][slow] = vec4<f32>(a0[{{I}}], a1[{{I}}], a2[{{I}}], a3[{{I}}]);
#end
        }
#endif
#if TRANS_B
#if WIDE
        if (index / ({{QUADS}}u * {{FOURS}}u) == 1u) {
#else
        {
#endif
#for I in 0..4
            let b{{I}} = select(vec4<f32>(), b_at(at_b{{I}} + quad), within);
#end
#for I in 0..4
            tile_b[fast][{{I}}][slow] = vec4<f32>(b0[{{I}}], b1[{{I}}], b2[{{I}}], b3[{{I}}]);
#end
        }
#endif
#if TRANS_A
#if WIDE
        tile_a[part / 4u][part % 4u][spot] = a0;
#else
#for I in 0..4
        tile_a[part / 4u][{{I}}][spot] = a{{I}};
#end
#endif
#endif
#if !TRANS_B
#if WIDE
        tile_b[part / 4u][part % 4u][spot] = b0;
#else
#for I in 0..4
        tile_b[part / 4u][{{I}}][spot] = b{{I}};
#end
#endif
#endif
        workgroupBarrier();
#if ROLLED
        let steps = min({{STEP}}u, end - k); // no constant, or it is unrolled all the same
        for (var i = 0u; i < steps; i++) {
#import "shared/product_step_before.wgsl" AT=i/4u WITHIN=i%4u SIDE={{SIDE}} SPOTS={{SPOTS}}
        }
#else
        for (var i = 0u; i < {{FOURS}}u; i++) {
#for K in 0..4
            {
#import "shared/product_step_before.wgsl" AT=i WITHIN={{K}} SIDE={{SIDE}} SPOTS={{SPOTS}}
            }
#end
        }
#endif
        workgroupBarrier();
    }
