// attention_matrix: attention_tiled with operands rounded to f16, by matrix units: o = softmax(scale q k^T) v head by head, and lse. Rows are positions, columns
// keys. Plain code makes weights of a subgroup's scores, SHARES invocations a row, by online softmax; o is multiplied element by element with a matrix of
// how much each row shrinks. Twin: graph.Attention.Eval.
#import "shared/attention_matrix_operands.wgsl"
@bind var<storage, read_write> o: array<{{ELEMENT}}>;
@bind var<storage, read_write> lse: array<f32>;
#import "shared/attention_limits.wgsl"
#import "shared/attention_matrix.wgsl"
#import "shared/attention_eight.wgsl" FN=eight_q LOAD={{Q_EIGHT}}
#import "shared/attention_eight.wgsl" FN=eight_k LOAD={{K_EIGHT}}
#import "shared/attention_eight.wgsl" FN=eight_v LOAD={{V_EIGHT}}

const SHARES = {{LANES}}u / MINE;
const QUADS = COLUMNS / 4u / SHARES; // of scores, an invocation
const FACTORS = {{UNIT_N}}u / 4u / SHARES;
const LN2 = 0.6931471805599453;

// Products of queries and keys as scores, in powers of 2.
fn powers(products: vec4<u32>) -> vec4<f32> {
    let s = bitcast<vec4<f32>>(products);
#if CAPPED
    return LOG2E * vec4<f32>(scored(s.x), scored(s.y), scored(s.z), scored(s.w));
#else
    return LOG2E * p.scale * s;
#endif
}

var<workgroup> shares: array<vec4<f32>, {{ROWS}}>; // of each row, what its invocations join

@compute @workgroup_size({{INVOCATIONS}}, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    matrix_lane = index % {{LANES}}u;
    let b = workgroup.x / p.heads;
    let h = workgroup.x % p.heads;
    let first = (workgroups.y - 1u - workgroup.y) * ROWS; // of the workgroup; causal, the last positions see most keys, and go first
    let mine = index / {{LANES}}u * MINE; // of the workgroup's rows, the first of the subgroup's
    let own = {{OWN}}u + mine * OWN_PITCH;
    let factors = {{START}}u + mine * {{START_PITCH}}u;
    let qat = b * p.t * p.qs + h * p.head;
    let oat = b * p.t * p.os + h * p.head;
    let kat = b * p.t * p.ks + p.k0 + h / p.group * p.head;
    let vat = b * p.t * p.vs + p.v0 + h / p.group * p.head;
    // Positions past the end repeat the last one and are not stored.
#import "shared/attention_matrix_rows.wgsl" X=q AT={{FIRST}}u BASE=qat STRIDE=p.qs
#if FIRST_HELD
    workgroupBarrier();
#import "shared/attention_matrix_held.wgsl" X=q AT={{FIRST}}u
#endif
#for I in 0..DOWN
#for W in 0..WIDE
    var o{{I}}_{{W}} = matrix_zero();
#end
#end
    // An invocation's row of the subgroup's, and its share of the columns.
    let r = matrix_lane % MINE;
    let share = matrix_lane / MINE;
    let position = first + mine + r;
    let scores = own + r * OWN_PITCH + share * QUADS;
    var m = 0.5 * LOWEST; // above the score of a key that is not seen, should such come first; in powers of 2
    var l = 0.0;
    let end = keys_end(min(first + ROWS, p.t) - 1u);
#if LOCAL
    let start_key = keys_first(b, first);
#else
    let start_key = 0u;
#endif
#for L in 0..BLOCKS
    var k_{{L}}: vec4<u32>;
    var v_{{L}}: vec4<u32>;
#end
#if AHEAD
#import "shared/attention_fetch.wgsl" X=k AT=start_key BASE=kat STRIDE=p.ks
#import "shared/attention_fetch.wgsl" X=v AT=start_key BASE=vat STRIDE=p.vs
#endif
    for (var begin = start_key; begin < end; begin += COLUMNS) {
#if !AHEAD
#import "shared/attention_fetch.wgsl" X=k AT=begin BASE=kat STRIDE=p.ks
#import "shared/attention_fetch.wgsl" X=v AT=begin BASE=vat STRIDE=p.vs
#endif
        workgroupBarrier();
#import "shared/attention_put.wgsl" X=k AT=0u
#import "shared/attention_put.wgsl" X=v AT=COLUMNS*PITCH
        workgroupBarrier();
#if AHEAD
#import "shared/attention_fetch.wgsl" X=k AT=begin+COLUMNS BASE=kat STRIDE=p.ks
#import "shared/attention_fetch.wgsl" X=v AT=begin+COLUMNS BASE=vat STRIDE=p.vs
#endif
#for I in 0..DOWN
#for J in 0..ACROSS
        var s{{I}}_{{J}} = matrix_zero();
#end
#end
#for S in 0..DEPTH
#if !FIRST_HELD
#for I in 0..DOWN
        let q{{I}}_{{S}} = matrix_load_a({{FIRST}}u + (mine + {{I}}u * {{UNIT_M}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#end
#endif
#for J in 0..ACROSS
        {
            let key = matrix_load_b({{J}}u * {{UNIT_N}}u * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#for I in 0..DOWN
            s{{I}}_{{J}} = matrix_mul_add(q{{I}}_{{S}}, key, s{{I}}_{{J}});
#end
        }
#end
#end
#for I in 0..DOWN
#for J in 0..ACROSS
        matrix_store(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{J}}u * {{UNIT_N}}u / 4u, OWN_PITCH, s{{I}}_{{J}});
#end
#end
        matrix_barrier();
        let whole = all_seen(b, first + mine, MINE, begin, COLUMNS);
#for I in 0..EIGHTHS
        var low{{I}} = powers(tile[scores + 2u * {{I}}u]);
        var high{{I}} = powers(tile[scores + 2u * {{I}}u + 1u]);
#end
        if (!whole) {
            let key = begin + 4u * share * QUADS;
#for I in 0..EIGHTHS
#for E in 0..4
            low{{I}}[{{E}}] = select(LOWEST, low{{I}}[{{E}}], seen_from(b, position, key + 8u * {{I}}u + {{E}}u));
            high{{I}}[{{E}}] = select(LOWEST, high{{I}}[{{E}}], seen_from(b, position, key + 8u * {{I}}u + 4u + {{E}}u));
#end
#end
        }
        var most = vec4<f32>(LOWEST);
#for I in 0..EIGHTHS
        most = max(most, max(low{{I}}, high{{I}}));
#end
        shares[mine + r][share] = max(max(most.x, most.y), max(most.z, most.w));
        matrix_barrier();
        let old = m;
        let found = shares[mine + r];
        for (var i = 0u; i < SHARES; i++) {
            m = max(m, found[i]);
        }
        let shrink = exp2(old - m);
        var sum = vec4<f32>();
#for I in 0..EIGHTHS
        low{{I}} = exp2(low{{I}} - m);
        high{{I}} = exp2(high{{I}} - m);
        sum += low{{I}} + high{{I}};
        tile[own + r * OWN_PITCH + share * QUADS / 2u + {{I}}u] = matrix_eight(low{{I}}, high{{I}});
#end
        l = l * shrink + ((sum.x + sum.y) + (sum.z + sum.w));
        for (var i = 0u; i < FACTORS; i++) {
            tile[factors + r * {{START_PITCH}}u + share * FACTORS + i] = bitcast<vec4<u32>>(vec4<f32>(shrink));
        }
        matrix_barrier();
#for I in 0..DOWN
        let shrink{{I}} = matrix_load_c(factors + {{I}}u * {{UNIT_M}}u * {{START_PITCH}}u, {{START_PITCH}}u);
#for W in 0..WIDE
        o{{I}}_{{W}} = matrix_mul(o{{I}}_{{W}}, shrink{{I}});
#end
#end
#for T in 0..STEPS
#for I in 0..DOWN
        let w{{I}}_{{T}} = matrix_load_a(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{T}}u * {{UNIT_K}}u / 8u, OWN_PITCH);
#end
#for W in 0..WIDE
        {
            let value = matrix_load_b_rows((COLUMNS + {{T}}u * {{UNIT_K}}u) * PITCH + {{W}}u * {{UNIT_N}}u / 8u, PITCH);
#for I in 0..DOWN
            o{{I}}_{{W}} = matrix_mul_add(w{{I}}_{{T}}, value, o{{I}}_{{W}});
#end
        }
#end
#end
    }
    shares[mine + r][share] = l;
    matrix_barrier();
    l = 0.0;
    for (var i = 0u; i < SHARES; i++) {
        l += shares[mine + r][i];
    }
    if (share == 0u && position < p.t) {
        lse[workgroup.x * p.t + position] = LN2 * m + log(l);
    }
    for (var i = 0u; i < FACTORS; i++) {
        tile[factors + r * {{START_PITCH}}u + share * FACTORS + i] = bitcast<vec4<u32>>(vec4<f32>(1.0 / l));
    }
    matrix_barrier();
#for I in 0..DOWN
    let inverse{{I}} = matrix_load_c(factors + {{I}}u * {{UNIT_M}}u * {{START_PITCH}}u, {{START_PITCH}}u);
#for W in 0..WIDE
    o{{I}}_{{W}} = matrix_mul(o{{I}}_{{W}}, inverse{{I}});
#end
#end
#import "shared/attention_matrix_store.wgsl" X=o TO=o AT=oat STRIDE=p.os SCALE=1.0
}
