// attention_dkv_matrix: attention_dkv_tiled with operands rounded to f16, by matrix units. Rows are keys, columns positions: S^T = k q^T starts from -lse / scale
// and dP^T = v dout^T from -delta, P^T = 2^(scale log2(e) S^T), dS^T = P^T dP^T element by element; both go through workgroup memory as f16 into
// dv += P^T dout and dk += dS^T q. Where scores are capped, plain code makes P of S. Twin: graph.AttentionGrad.Eval.
#import "shared/attention_matrix_operands.wgsl"
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dout: array<{{DOUT_ELEMENT}}>;
@bind var<storage, read> delta: array<f32>;
@bind var<storage, read_write> {{DK}}: array<{{ELEMENT}}>;
#if PARTS
@bind var<storage, read_write> dv: array<{{ELEMENT}}>;
#else
#if !PACKED
@bind var<storage, read_write> dv: array<{{ELEMENT}}>;
#endif
#endif
#import "shared/attention_limits.wgsl"
#import "shared/attention_matrix.wgsl"
#import "shared/attention_eight.wgsl" FN=eight_q LOAD={{Q_EIGHT}}
#import "shared/attention_eight.wgsl" FN=eight_k LOAD={{K_EIGHT}}
#import "shared/attention_eight.wgsl" FN=eight_v LOAD={{V_EIGHT}}
#import "shared/attention_eight.wgsl" FN=eight_dout LOAD={{DOUT_EIGHT}}

@compute @workgroup_size({{INVOCATIONS}}, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    matrix_lane = index % {{LANES}}u;
    let kvheads = p.heads / p.group;
    let b = workgroup.x / kvheads;
    let kv = workgroup.x % kvheads;
    let first = workgroup.y * ROWS; // of the workgroup; causal, the first keys are seen by most positions, and go first
    let mine = index / {{LANES}}u * MINE; // of the workgroup's rows, the first of the subgroup's
    let own = {{OWN}}u + mine * OWN_PITCH;
    let kat = b * p.t * p.ks + p.k0 + kv * p.head;
    let vat = b * p.t * p.vs + p.v0 + kv * p.head;
    // Keys past the end repeat the last one and are not stored.
#import "shared/attention_matrix_rows.wgsl" X=k AT={{FIRST}}u BASE=kat STRIDE=p.ks
#if FIRST_HELD
    workgroupBarrier();
#import "shared/attention_matrix_held.wgsl" X=k AT={{FIRST}}u
    workgroupBarrier();
#endif
#import "shared/attention_matrix_rows.wgsl" X=v AT={{SECOND}}u BASE=vat STRIDE=p.vs
#if SECOND_HELD
    workgroupBarrier();
#import "shared/attention_matrix_held.wgsl" X=v AT={{SECOND}}u
#endif
#for I in 0..DOWN
#for W in 0..WIDE
    var dk{{I}}_{{W}} = matrix_zero();
    var dv{{I}}_{{W}} = matrix_zero();
#end
#end
#if LOCAL
    let end = positions_end(b, min(first + ROWS, p.t) - 1u);
#else
    let end = p.t;
#endif
    // Blocks of positions of one query head after the other.
    let start_position = positions_begin(first);
    let blocks = (end - start_position + COLUMNS - 1u) / COLUMNS;
    let heads = p.group / workgroups.z; // PARTS: each part of a key head's query heads has sums of its own
    let head = kv * p.group + workgroup.z * heads;
    let all = heads * blocks;
    let column = index % COLUMNS;
#for L in 0..BLOCKS
    var q_{{L}}: vec4<u32>;
    var dout_{{L}}: vec4<u32>;
#end
    var lse_next = 0.0;
    var delta_next = 0.0;
#if AHEAD
    let qat = b * p.t * p.qs + head * p.head;
    let oat = b * p.t * p.os + head * p.head;
#import "shared/attention_fetch.wgsl" X=q AT=start_position BASE=qat STRIDE=p.qs
#import "shared/attention_fetch.wgsl" X=dout AT=start_position BASE=oat STRIDE=p.os
    lse_next = lse[(b * p.heads + head) * p.t + min(start_position + column, p.t - 1u)];
    delta_next = delta[(b * p.heads + head) * p.t + min(start_position + column, p.t - 1u)];
#endif
    for (var n = 0u; n < all; n++) {
        {
            let begin = start_position + n % blocks * COLUMNS;
            let lat = (b * p.heads + head + n / blocks) * p.t;
#if !AHEAD
            let qat = b * p.t * p.qs + (head + n / blocks) * p.head;
            let oat = b * p.t * p.os + (head + n / blocks) * p.head;
#import "shared/attention_fetch.wgsl" X=q AT=begin BASE=qat STRIDE=p.qs
#import "shared/attention_fetch.wgsl" X=dout AT=begin BASE=oat STRIDE=p.os
            lse_next = lse[lat + min(begin + column, p.t - 1u)];
            delta_next = delta[lat + min(begin + column, p.t - 1u)];
#endif
            workgroupBarrier();
#import "shared/attention_put.wgsl" X=q AT=0u
#import "shared/attention_put.wgsl" X=dout AT=COLUMNS*PITCH
            // Equal rows of what each column starts from, for all; those of the subgroup, where not all of its keys are seen.
#if CAPPED
            let start = -lse_next;
            let whole = true;
#else
            let start = lse_next / -p.scale;
            let whole = all_seen(b, begin, COLUMNS, first + mine, MINE);
#endif
            for (var r = index / COLUMNS; r < {{UNIT_M}}u; r += {{INVOCATIONS}}u / COLUMNS) {
                tile[{{START}}u + r * {{START_PITCH}}u + column / 4u][column % 4u] = bitcast<u32>(start);
                tile[{{START}}u + ({{UNIT_M}}u + r) * {{START_PITCH}}u + column / 4u][column % 4u] = bitcast<u32>(-delta_next);
            }
#if !CAPPED
            if (!whole) {
                for (var i = matrix_lane; i < MINE * COLUMNS; i += {{LANES}}u) {
                    let c = i % COLUMNS;
                    let seen_c = seen_from(b, begin + c, first + mine + i / COLUMNS);
                    let start_c = select(HIDDEN, lse[lat + min(begin + c, p.t - 1u)] / -p.scale, seen_c);
                    tile[own + i / COLUMNS * OWN_PITCH + c / 4u][c % 4u] = bitcast<u32>(start_c);
                }
            }
#endif
            workgroupBarrier();
#if AHEAD
            let next = min(n + 1u, all - 1u);
            let next_begin = start_position + next % blocks * COLUMNS;
            let next_head = head + next / blocks;
            let next_qat = b * p.t * p.qs + next_head * p.head;
            let next_oat = b * p.t * p.os + next_head * p.head;
#import "shared/attention_fetch.wgsl" X=q AT=next_begin BASE=next_qat STRIDE=p.qs
#import "shared/attention_fetch.wgsl" X=dout AT=next_begin BASE=next_oat STRIDE=p.os
            lse_next = lse[(b * p.heads + next_head) * p.t + min(next_begin + column, p.t - 1u)];
            delta_next = delta[(b * p.heads + next_head) * p.t + min(next_begin + column, p.t - 1u)];
#endif
#for I in 0..DOWN
#for J in 0..ACROSS
#if CAPPED
            var s{{I}}_{{J}} = matrix_zero();
#else
            var s{{I}}_{{J}} = matrix_load_c(select(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH, {{START}}u, whole) + {{J}}u * {{UNIT_N}}u / 4u,
                select(OWN_PITCH, {{START_PITCH}}u, whole));
#endif
            var e{{I}}_{{J}} = matrix_load_c({{START}}u + {{UNIT_M}}u * {{START_PITCH}}u + {{J}}u * {{UNIT_N}}u / 4u, {{START_PITCH}}u);
#end
#end
#import "shared/attention_matrix_scores.wgsl" A=k B=v
            matrix_barrier();
#if CAPPED
#for I in 0..DOWN
#for J in 0..ACROSS
            matrix_store(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{J}}u * {{UNIT_N}}u / 4u, OWN_PITCH, s{{I}}_{{J}});
#end
#end
            matrix_barrier();
            for (var i = matrix_lane; i < MINE * COLUMNS / 4u; i += {{LANES}}u) {
                let c = i % (COLUMNS / 4u);
                let r = i / (COLUMNS / 4u);
                let s = bitcast<vec4<f32>>(tile[own + r * OWN_PITCH + c]);
                let starts = bitcast<vec4<f32>>(tile[{{START}}u + c]);
                var w = vec4<f32>();
                var ds = vec4<f32>();
#for E in 0..4
                w[{{E}}] = select(0.0, exp(scored(s[{{E}}]) + starts[{{E}}]), seen_from(b, begin + 4u * c + {{E}}u, first + mine + r));
                ds[{{E}}] = w[{{E}}] * slope(s[{{E}}]);
#end
                tile[own + r * OWN_PITCH + c] = bitcast<vec4<u32>>(ds);
                tile[own + r * OWN_PITCH + {{WEIGHTS}}u + c / 2u][2u * (c % 2u)] = pack2x16float(w.xy);
                tile[own + r * OWN_PITCH + {{WEIGHTS}}u + c / 2u][2u * (c % 2u) + 1u] = pack2x16float(w.zw);
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
            matrix_store_half(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{WEIGHTS}}u + {{J}}u * {{UNIT_N}}u / 8u, OWN_PITCH, s{{I}}_{{J}});
#end
#end
#endif
#for I in 0..DOWN
#for J in 0..ACROSS
            matrix_store_half(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{DSCORES}}u + {{J}}u * {{UNIT_N}}u / 8u, OWN_PITCH, matrix_mul(s{{I}}_{{J}}, e{{I}}_{{J}}));
#end
#end
            matrix_barrier();
#for T in 0..STEPS
#for I in 0..DOWN
            let w{{I}}_{{T}} = matrix_load_a(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{WEIGHTS}}u + {{T}}u * {{UNIT_K}}u / 8u, OWN_PITCH);
            let ds{{I}}_{{T}} = matrix_load_a(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH + {{DSCORES}}u + {{T}}u * {{UNIT_K}}u / 8u, OWN_PITCH);
#end
#for W in 0..WIDE
            {
                let query = matrix_load_b_rows({{T}}u * {{UNIT_K}}u * PITCH + {{W}}u * {{UNIT_N}}u / 8u, PITCH);
                let dout_t = matrix_load_b_rows((COLUMNS + {{T}}u * {{UNIT_K}}u) * PITCH + {{W}}u * {{UNIT_N}}u / 8u, PITCH);
#for I in 0..DOWN
                dv{{I}}_{{W}} = matrix_mul_add(w{{I}}_{{T}}, dout_t, dv{{I}}_{{W}});
                dk{{I}}_{{W}} = matrix_mul_add(ds{{I}}_{{T}}, query, dk{{I}}_{{W}});
#end
            }
#end
#end
        }
    }
#if PARTS
    let to = (workgroup.z * workgroups.x * p.t + b * p.t * kvheads + kv) * p.head;
#import "shared/attention_matrix_store.wgsl" X=dk TO=dk AT=to STRIDE=kvheads*p.head SCALE=p.scale
#import "shared/attention_matrix_store.wgsl" X=dv TO=dv AT=to STRIDE=kvheads*p.head SCALE=1.0
#else
#import "shared/attention_matrix_store.wgsl" X=dk TO={{DK}} AT=kat STRIDE=p.ks SCALE=p.scale
#import "shared/attention_matrix_store.wgsl" X=dv TO={{DV}} AT=vat STRIDE=p.vs SCALE=1.0
#endif
}
