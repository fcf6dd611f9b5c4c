// attention_dq_matrix: attention_dq_tiled with operands rounded to f16, by matrix units. Rows are positions, columns keys: S = q k^T starts from -lse / scale and
// dP = dout v^T from -delta, P = 2^(scale log2(e) S), dS = P dP element by element, which goes through workgroup memory as f16 into dq += dS k. Where scores
// are capped, plain code makes P of S. Twin: graph.AttentionGrad.Eval.
#import "shared/attention_matrix_operands.wgsl"
@bind var<storage, read> o: array<{{ELEMENT}}>;
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dout: array<{{DOUT_ELEMENT}}>;
@bind var<storage, read_write> {{DQ}}: array<{{ELEMENT}}>;
@bind var<storage, read_write> delta: array<f32>;
#import "shared/attention_limits.wgsl"
#import "shared/attention_matrix.wgsl"
#import "shared/attention_eight.wgsl" FN=eight_q LOAD={{Q_EIGHT}}
#import "shared/attention_eight.wgsl" FN=eight_k LOAD={{K_EIGHT}}
#import "shared/attention_eight.wgsl" FN=eight_v LOAD={{V_EIGHT}}
#import "shared/attention_eight.wgsl" FN=eight_dout LOAD={{DOUT_EIGHT}}

var<workgroup> starts: array<vec2<f32>, {{ROWS}}>; // -lse, times 1 / scale where scores are not capped, and -delta of each row

@compute @workgroup_size({{INVOCATIONS}}, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    matrix_lane = index % {{LANES}}u;
    let b = workgroup.x / p.heads;
    let h = workgroup.x % p.heads;
    let first = (workgroups.y - 1u - workgroup.y) * ROWS; // of the workgroup; causal, the last positions see most keys, and go first
    let mine = index / {{LANES}}u * MINE; // of the workgroup's rows, the first of the subgroup's
    let own = {{OWN}}u + mine * OWN_PITCH;
    let qat = b * p.t * p.qs + h * p.head;
    let oat = b * p.t * p.os + h * p.head;
    let kat = b * p.t * p.ks + p.k0 + h / p.group * p.head;
    let vat = b * p.t * p.vs + p.v0 + h / p.group * p.head;
    // Positions past the end repeat the last one and are not stored.
#import "shared/attention_matrix_rows.wgsl" X=q AT={{FIRST}}u BASE=qat STRIDE=p.qs
#if FIRST_HELD
    workgroupBarrier();
#import "shared/attention_matrix_held.wgsl" X=q AT={{FIRST}}u
    workgroupBarrier();
#endif
#import "shared/attention_matrix_rows.wgsl" X=dout AT={{SECOND}}u BASE=oat STRIDE=p.os
    workgroupBarrier();
    for (var r = index; r < ROWS; r += {{INVOCATIONS}}u) {
        let at = oat + min(first + r, p.t - 1u) * p.os;
        var sum = vec4<f32>();
        for (var e = 0u; e < EIGHTS; e++) {
            let g = tile[{{SECOND}}u + r * PITCH + e];
            sum = fma(vec4<f32>(unpack2x16float(g.x), unpack2x16float(g.y)), o[at + 2u * e], sum);
            sum = fma(vec4<f32>(unpack2x16float(g.z), unpack2x16float(g.w)), o[at + 2u * e + 1u], sum);
        }
        let delta_r = (sum.x + sum.y) + (sum.z + sum.w);
        let lat = workgroup.x * p.t + min(first + r, p.t - 1u);
        if (first + r < p.t) {
            delta[lat] = delta_r;
        }
#if CAPPED
        starts[r] = vec2<f32>(-lse[lat], -delta_r);
#else
        starts[r] = vec2<f32>(lse[lat] / -p.scale, -delta_r);
#endif
    }
    workgroupBarrier();
    // Equal columns of what each row starts from.
    for (var i = index; i < ROWS * {{UNIT_N}}u / 4u; i += {{INVOCATIONS}}u) {
        let at = i / ({{UNIT_N}}u / 4u) * {{START_PITCH}}u + i % ({{UNIT_N}}u / 4u);
        let start = starts[i / ({{UNIT_N}}u / 4u)];
        tile[{{START}}u + at] = bitcast<vec4<u32>>(vec4<f32>(start.x));
        tile[{{START}}u + ROWS * {{START_PITCH}}u + at] = bitcast<vec4<u32>>(vec4<f32>(start.y));
    }
#if SECOND_HELD
#import "shared/attention_matrix_held.wgsl" X=g AT={{SECOND}}u
#endif
#for I in 0..DOWN
#for W in 0..WIDE
    var dq{{I}}_{{W}} = matrix_zero();
#end
#end
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
#if !CAPPED
        let whole = all_seen(b, first + mine, MINE, begin, COLUMNS);
        if (!whole) {
            for (var i = matrix_lane; i < MINE * COLUMNS; i += {{LANES}}u) {
                let r = i / COLUMNS;
                let c = i % COLUMNS;
                let start = select(HIDDEN, starts[mine + r].x, seen_from(b, first + mine + r, begin + c));
                tile[own + r * OWN_PITCH + c / 4u][c % 4u] = bitcast<u32>(start);
            }
        }
#endif
        workgroupBarrier();
#if AHEAD
#import "shared/attention_fetch.wgsl" X=k AT=begin+COLUMNS BASE=kat STRIDE=p.ks
#import "shared/attention_fetch.wgsl" X=v AT=begin+COLUMNS BASE=vat STRIDE=p.vs
#endif
#for I in 0..DOWN
        let start{{I}} = {{START}}u + (mine + {{I}}u * {{UNIT_M}}u) * {{START_PITCH}}u;
#for J in 0..ACROSS
#if CAPPED
        var s{{I}}_{{J}} = matrix_zero();
#else
        var s{{I}}_{{J}} = matrix_load_c(select(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{J}}u * {{UNIT_N}}u / 4u, start{{I}}, whole),
            select(OWN_PITCH, {{START_PITCH}}u, whole));
#endif
        var e{{I}}_{{J}} = matrix_load_c(start{{I}} + ROWS * {{START_PITCH}}u, {{START_PITCH}}u);
#end
#end
#import "shared/attention_matrix_scores.wgsl" A=q B=g
        matrix_barrier();
#if CAPPED
#for I in 0..DOWN
#for J in 0..ACROSS
        matrix_store(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{J}}u * {{UNIT_N}}u / 4u, OWN_PITCH, s{{I}}_{{J}});
#end
#end
        matrix_barrier();
        for (var i = matrix_lane; i < MINE * COLUMNS / 4u; i += {{LANES}}u) {
            let r = i / (COLUMNS / 4u);
            let c = i % (COLUMNS / 4u);
            var s = bitcast<vec4<f32>>(tile[own + r * OWN_PITCH + c]);
            let start = starts[mine + r].x;
#for E in 0..4
            s[{{E}}] = select(0.0, exp(scored(s[{{E}}]) + start) * slope(s[{{E}}]), seen_from(b, first + mine + r, begin + 4u * c + {{E}}u));
#end
            tile[own + r * OWN_PITCH + c] = bitcast<vec4<u32>>(s);
        }
        matrix_barrier();
#for I in 0..DOWN
#for J in 0..ACROSS
        s{{I}}_{{J}} = matrix_load_c(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{J}}u * {{UNIT_N}}u / 4u, OWN_PITCH);
#end
#end
        matrix_barrier();
#else
#for I in 0..DOWN
#for J in 0..ACROSS
        s{{I}}_{{J}} = matrix_exp2(s{{I}}_{{J}}, LOG2E * p.scale);
#end
#end
#endif
#for I in 0..DOWN
#for J in 0..ACROSS
        matrix_store_half(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{J}}u * {{UNIT_N}}u / 8u, OWN_PITCH, matrix_mul(s{{I}}_{{J}}, e{{I}}_{{J}}));
#end
#end
        matrix_barrier();
#for T in 0..STEPS
#for I in 0..DOWN
        let ds{{I}}_{{T}} = matrix_load_a(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{T}}u * {{UNIT_K}}u / 8u, OWN_PITCH);
#end
#for W in 0..WIDE
        {
            let key = matrix_load_b_rows({{T}}u * {{UNIT_K}}u * PITCH + {{W}}u * {{UNIT_N}}u / 8u, PITCH);
#for I in 0..DOWN
            dq{{I}}_{{W}} = matrix_mul_add(ds{{I}}_{{T}}, key, dq{{I}}_{{W}});
#end
        }
#end
#end
    }
#import "shared/attention_matrix_store.wgsl" X=dq TO={{DQ}} AT=qat STRIDE=p.qs SCALE=p.scale
}
