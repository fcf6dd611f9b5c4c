    // The products of a tile of C along K, {{STEP}} of K at a time, through workgroup memory. In scope: a_raw(abase...) and b_raw(bbase...), row
    // strides p.lda and p.ldb; K from begin to end; m rows and n columns of C, row4 and col4 the first quads of the tile; index, of the
    // invocation, which has quads y4, y4 + {{SIDE}}, ... by x4, x4 + {{SIDE}}, ... of the tile; c0_0_0, ... that the products add to, k ascending.
    // PARTED: the first {{LOADERS}} invocations load four quads of A, the next ones of B; else each loads four of both. PREFETCH: those of the next step are on
    // their way while products are made. DOUBLE: a step has the place of the last but one, so that one barrier a step will do.
    // SUMS: workgroups of the first row add up what they have of B, each invocation a part. ROLLED: one K a turn, where registers do not hold the sums of an unrolled loop.
    // Rows and columns past an edge read the last ones, so that loads need no branch and one wait serves them all.
    let last = max(end, 1u) - 1u;
    let lda = p.lda;
    let ldb = p.ldb;
    let loader = index % {{LOADERS}}u;
    let spot = loader % {{QUADS}}u; // contiguous along M or N: quad `spot` of the four `part` of K
    let part = loader / {{QUADS}}u;
    let fast = loader % 2u + loader / 8u % {{PAIRS}}u * 2u; // contiguous along K: quad `fast` of the four rows `slow`
    let slow = loader / 2u % 4u + loader / {{FASTER}}u * 4u;
#for I in 0..4
    var {{A}}{{I}} = vec4<u32>();
    var at_{{A}}{{I}} = 0u;
#if !PARTED
    var {{B}}{{I}} = vec4<u32>();
    var at_{{B}}{{I}} = 0u;
#endif
#end
#if PARTED
    if (index < {{LOADERS}}u) {
#else
    {
#endif
#if TRANS_A
        let column = abase + min(row4 + spot, (m + 3u) / 4u - 1u);
        at_{{A}}0 = column + (begin + 4u * part) * lda; // moves with k
        at_{{A}}1 = column + last * lda;
#else
#for I in 0..4
        at_{{A}}{{I}} = abase + min(4u * (row4 + slow) + {{I}}u, m - 1u) * lda;
#end
#endif
    }
#if PARTED
    else {
#else
    {
#endif
#if TRANS_B
#for I in 0..4
        at_{{B}}{{I}} = bbase + min(4u * (col4 + slow) + {{I}}u, n - 1u) * ldb;
#end
#else
        let column = bbase + min(col4 + spot, (n + 3u) / 4u - 1u);
        at_{{B}}0 = column + (begin + 4u * part) * ldb; // moves with k
        at_{{B}}1 = column + last * ldb;
#endif
    }
    let y0 = y4; // in even fours of K, and in odd ones
    let x0 = x4;
    let y1 = y4 ^ {{SWAP}}u;
    let x1 = x4 ^ {{SWAP}}u;
#if DOUBLE
    var turn = 0u;
#else
    let turn = 0u;
#endif
#if PREFETCH
#import "shared/product_fetch.wgsl" K=begin
#endif
    for (var k = begin; k < end; k += {{STEP}}u) {
#if !PREFETCH
#import "shared/product_fetch.wgsl" K=k
#endif
#if PREFETCH
        if (k + {{STEP}}u > end) { // past the end of K is 0
#else
        {
#endif
#if PARTED
            let along = select({{ALONG_B}}, {{ALONG_A}}, index < {{LOADERS}}u);
#for I in 0..4
            {{A}}{{I}} = select(vec4<u32>(), {{A}}{{I}}, k + select(4u * fast, 4u * part + {{I}}u, along) < end);
#end
#else
#for I in 0..4
            {{A}}{{I}} = select(vec4<u32>(), {{A}}{{I}}, k + select(4u * fast, 4u * part + {{I}}u, {{ALONG_A}}) < end);
            {{B}}{{I}} = select(vec4<u32>(), {{B}}{{I}}, k + select(4u * fast, 4u * part + {{I}}u, {{ALONG_B}}) < end);
#end
#endif
        }
#if PARTED
        if (index < {{LOADERS}}u) {
#else
        {
#endif
#if TRANS_A
            stage(turn + part, 0u, spot, a_of({{A}}0), a_of({{A}}1), a_of({{A}}2), a_of({{A}}3));
#else
            stage_across(turn + fast, 0u, slow, a_of({{A}}0), a_of({{A}}1), a_of({{A}}2), a_of({{A}}3));
#endif
        }
#if PARTED
        else {{IDLE}} {
#else
        {
#endif
#if TRANS_B
            stage_across(turn + fast, 1u, slow, b_of({{B}}0), b_of({{B}}1), b_of({{B}}2), b_of({{B}}3));
#else
            stage(turn + part, 1u, spot, b_of({{B}}0), b_of({{B}}1), b_of({{B}}2), b_of({{B}}3));
#endif
        }
        workgroupBarrier();
#if PREFETCH
#import "shared/product_fetch.wgsl" K=(k+{{STEP}}u)
#endif
#if SUMS
        if (wg.y == 0u) {
#for L in 0..SUM_TURNS
            sum += staged(turn, sum_line + {{L}}u * {{SUM_LINES}}u, sum_column);
#end
        }
#endif
#if ROLLED
        let steps = min({{STEP}}u, end - k); // no constant, or it is unrolled all the same
        for (var i = 0u; i < steps; i++) {
#import "shared/product_step.wgsl" AT=i/4u WITHIN=i%4u ODD=0
        }
#else
        for (var i = 0u; i < {{FOURS}}u; i += 2u) {
#for F in 0..2
#for K in 0..4
            {
#import "shared/product_step.wgsl" AT=i+{{F}}u WITHIN={{K}} ODD={{F}}
            }
#end
#end
        }
#endif
#if DOUBLE
        turn = {{FOURS}}u - turn;
#else
        workgroupBarrier();
#endif
    }
#if DOUBLE
    workgroupBarrier();
#endif
