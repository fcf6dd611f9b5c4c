// kron_product: C_i = alpha_i op(A_i) op(B_i) + beta_i D_i, a batch of equal matrices whose sides are multiples of four.
// An invocation keeps a square tile of 4*TILE rows and columns of one C in registers and goes along K four at a time; nothing goes
// through workgroup memory. Tiles of all matrices are counted in one row, so that no lane idles. WORKGROUP, for GPUs: 8x8 invocations make a
// tile of 64x64 through workgroup memory, sixteen of K at a time, as matmul_tiled.wgsl does.
// SYMMETRIC: the tiles on and above the diagonal, each stored twice. Op is a transposition with TRANS_A, TRANS_B. KEEP: matrices that are
// not stored. BALANCING: nothing is done in updates that do not balance. DITHER: rounded at random, as a factor. Twin: plain sums in the test.
#if BF16
#import "shared/bf16.wgsl"
#endif
#if UPDATE
#import "shared/threefry.wgsl"
#import "shared/kron.wgsl"
#endif

struct Params {
    m: u32, n: u32, k: u32,       // C is [m, n], in quads; k in elements
    count: u32,                   // of matrices
    lda: u32, ldb: u32, ldc: u32, // row strides in quads
    across: u32,                  // tiles in a row of tiles
    sa: u32, sb: u32, sc: u32,    // strides from matrix to matrix in quads, D like C
    tiles: u32,                   // of a matrix
    alpha: f32, beta: f32,
}

@bind var<uniform> p: Params;
@bind var<storage, read> a: array<{{A_TYPE}}>;
@bind var<storage, read> b: array<{{B_TYPE}}>;
@bind var<storage, read_write> c: array<{{C_TYPE}}>;
// d, coefficients (alpha, beta), keep (not zero: not stored), update, sides (as in kron_bound.wgsl), those that there are.
{{MORE}}

#if BF16
fn bf16_round4(x: vec4<f32>) -> vec4<u32> { return bf16_round_bits(bitcast<vec4<u32>>(x)); }
#endif

#if WORKGROUP
#import "shared/z_order.wgsl"
#import "shared/product_memory.wgsl"
fn a_raw(i: u32) -> vec4<u32> { return {{A_RAW}}; }
fn b_raw(i: u32) -> vec4<u32> { return {{B_RAW}}; }
fn a_of(raw: vec4<u32>) -> vec4<f32> { return {{A_OF}}; }
fn b_of(raw: vec4<u32>) -> vec4<f32> { return {{B_OF}}; }
#endif

#import "shared/main.wgsl" LANES={{LANES}}
{
#if BALANCING
    if (update.balance == 0u) {
        return;
    }
#endif
#if WORKGROUP
    let item = grid_index(workgroup, workgroups, 0u, 1u);
#else
    let item = grid_index(workgroup, workgroups, lane, {{LANES}}u);
#endif
    let z = item / p.tiles;
    if (z >= p.count) {
        return;
    }
    let t = item % p.tiles;
#if SYMMETRIC
    // Tile t of the upper triangle, column by column.
    var right = u32((sqrt(8.0 * f32(t) + 1.0) - 1.0) * 0.5);
    if (right * (right + 1u) / 2u > t) { right = right - 1u; }
    if ((right + 1u) * (right + 2u) / 2u <= t) { right = right + 1u; }
    let down = t - right * (right + 1u) / 2u;
#else
    let down = t / p.across;
    let right = t % p.across;
#endif
#if WORKGROUP
    let y4 = every_second(lane >> 1u);
    let x4 = every_second(lane);
    let row = down * 16u + y4; // quads row, row+8 and col, col+8 are the invocation's
    let col = right * 16u + x4;
#else
#if KEEP
    if (keep[z] != 0u) {
        return;
    }
#endif
    let row = down * {{TILE}}u; // quads row, row+1, ... and col, col+1, ... are the invocation's
    let col = right * {{TILE}}u;
#endif
#for Q in 0..TILE
#for I in 0..4
#for J in 0..TILE
    var c{{Q}}_{{I}}_{{J}} = vec4<f32>();
#end
#end
#end
#if WORKGROUP
    let index = lane;
    let m = 4u * p.m;
    let n = 4u * p.n;
    let row4 = down * 16u;
    let col4 = right * 16u;
    let abase = z * p.sa;
    let bbase = z * p.sb;
    let begin = 0u;
    let end = p.k;
#import "shared/product_loop.wgsl"
#if KEEP
    if (keep[z] != 0u) {
        return;
    }
#endif
#else
    // Quads past the edge read the last ones and are not stored.
#for Q in 0..TILE
#if TRANS_A
    let a_{{Q}} = z * p.sa + min(row + {{Q}}u, p.m - 1u);
#else
#for I in 0..4
    let a_{{Q}}_{{I}} = z * p.sa + (4u * min(row + {{Q}}u, p.m - 1u) + {{I}}u) * p.lda;
#end
#endif
#if TRANS_B
#for I in 0..4
    let b_{{Q}}_{{I}} = z * p.sb + (4u * min(col + {{Q}}u, p.n - 1u) + {{I}}u) * p.ldb;
#end
#else
    let b_{{Q}} = z * p.sb + min(col + {{Q}}u, p.n - 1u);
#endif
#end
    for (var k = 0u; k < p.k; k += 4u) {
        let k4 = k / 4u;
        // ra_q_i is along K for row i of quad q; with TRANS_A along M, quad q, for k+i.
#for Q in 0..TILE
#for I in 0..4
#if TRANS_A
        let ra{{Q}}_{{I}} = {{A_LOAD}}(a[a_{{Q}} + (k + {{I}}u) * p.lda]);
#else
        let ra{{Q}}_{{I}} = {{A_LOAD}}(a[a_{{Q}}_{{I}} + k4]);
#endif
#end
#end
#for J in 0..TILE
#if TRANS_B
#for I in 0..4
        let t{{J}}_{{I}} = {{B_LOAD}}(b[b_{{J}}_{{I}} + k4]);
#end
#for K in 0..4
        let rb{{J}}_{{K}} = vec4<f32>(t{{J}}_0[{{K}}], t{{J}}_1[{{K}}], t{{J}}_2[{{K}}], t{{J}}_3[{{K}}]);
#end
#else
#for K in 0..4
        let rb{{J}}_{{K}} = {{B_LOAD}}(b[b_{{J}} + (k + {{K}}u) * p.ldb]);
#end
#endif
#for Q in 0..TILE
#for I in 0..4
#for K in 0..4
#if TRANS_A
        c{{Q}}_{{I}}_{{J}} += ra{{Q}}_{{K}}[{{I}}] * rb{{J}}_{{K}};
#else
        c{{Q}}_{{I}}_{{J}} += ra{{Q}}_{{I}}[{{K}}] * rb{{J}}_{{K}};
#endif
#end
#end
#end
#end
    }
#endif
#if COEFFICIENTS
    let alpha = coefficients[z].x;
    let beta = coefficients[z].y;
#else
    let alpha = p.alpha;
    let beta = p.beta;
#endif
#if DITHER
    let key = kron_rounding_key(kron_block_key(update.dense, sides[z].z), sides[z].y);
#endif
#for Q in 0..TILE
    let row_{{Q}} = row + {{Q}}u * {{APART}}u;
    let col_{{Q}} = col + {{Q}}u * {{APART}}u;
#end
#for Q in 0..TILE
#for J in 0..TILE
#if SYMMETRIC
    if (row_{{Q}} <= col_{{J}} && col_{{J}} < p.n) {
#else
    if (row_{{Q}} < p.m && col_{{J}} < p.n) {
#endif
        let at = z * p.sc + 4u * row_{{Q}} * p.ldc + col_{{J}};
#for I in 0..4
        var v{{I}} = alpha * c{{Q}}_{{I}}_{{J}};
#if ADD
        v{{I}} += beta * {{D_LOAD}}(d[at + {{I}}u * p.ldc]);
#endif
#if DITHER
        var s{{I}} = kron_round_bits(v{{I}}, key, 4u * row_{{Q}} + {{I}}u, col_{{J}});
#else
        var s{{I}} = {{C_ROUND}}(v{{I}});
#endif
#end
#if SYMMETRIC
        let diagonal = row_{{Q}} == col_{{J}};
        if (diagonal) {
            s1.x = s0.y;
            s2.x = s0.z;
            s2.y = s1.z;
            s3.x = s0.w;
            s3.y = s1.w;
            s3.z = s2.w;
        }
#endif
#for I in 0..4
        c[at + {{I}}u * p.ldc] = {{C_STORE}}(s{{I}});
#end
#if SYMMETRIC
        if (!diagonal) {
            let mirror = z * p.sc + 4u * col_{{J}} * p.ldc + row_{{Q}};
#for I in 0..4
            c[mirror + {{I}}u * p.ldc] = {{C_STORE}}({{C_VALUE}}(s0[{{I}}], s1[{{I}}], s2[{{I}}], s3[{{I}}]));
#end
        }
#endif
    }
#end
#end
}
