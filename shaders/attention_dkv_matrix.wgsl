// attention_dkv_matrix: attention_dkv_tiled with operands rounded to f16, by matrix units. Rows are keys, columns positions: S^T = k q^T starts from -lse / scale
// and dP^T = v dout^T from -delta, P^T = 2^(scale log2(e) S^T), dS^T = P^T dP^T element by element; both go through workgroup memory as f16 into
// dv += P^T dout and dk += dS^T q. Where scores are capped, plain code makes P of S. Twin: graph.AttentionGrad.Eval.
#import "shared/attention_operands.wgsl"
@bind var<storage, read> lse: array<f32>;
@bind var<storage, read> dout: array<{{ELEMENT}}>;
@bind var<storage, read> delta: array<f32>;
@bind var<storage, read_write> {{DK}}: array<{{ELEMENT}}>;
#if !PACKED
@bind var<storage, read_write> dv: array<{{ELEMENT}}>;
#endif
#import "shared/attention_limits.wgsl"
#import "shared/attention_matrix.wgsl"
#import "shared/attention_eight.wgsl" FN=eight_q FROM={{Q}}
#import "shared/attention_eight.wgsl" FN=eight_k FROM={{K}}
#import "shared/attention_eight.wgsl" FN=eight_v FROM={{V}}
#import "shared/attention_eight.wgsl" FN=eight_dout FROM=dout

@compute @workgroup_size({{INVOCATIONS}}, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
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
    for (var i = index; i < ROWS * EIGHTS; i += {{INVOCATIONS}}u) {
        tile[{{FIRST}}u + i / EIGHTS * PITCH + i % EIGHTS] = eight_k(kat + min(first + i / EIGHTS, p.t - 1u) * p.ks, i % EIGHTS);
    }
#if FIRST_HELD
    workgroupBarrier();
#for S in 0..DEPTH
#for I in 0..DOWN
    let k{{I}}_{{S}} = matrix_load_a({{FIRST}}u + (mine + {{I}}u * {{UNIT_M}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#end
#end
    workgroupBarrier();
#endif
    for (var i = index; i < ROWS * EIGHTS; i += {{INVOCATIONS}}u) {
        tile[{{SECOND}}u + i / EIGHTS * PITCH + i % EIGHTS] = eight_v(vat + min(first + i / EIGHTS, p.t - 1u) * p.vs, i % EIGHTS);
    }
#if SECOND_HELD
    workgroupBarrier();
#for S in 0..DEPTH
#for I in 0..DOWN
    let v{{I}}_{{S}} = matrix_load_a({{SECOND}}u + (mine + {{I}}u * {{UNIT_M}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#end
#end
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
    for (var g = 0u; g < p.group; g++) {
        let h = kv * p.group + g;
        let lat = (b * p.heads + h) * p.t;
        for (var begin = positions_begin(first); begin < end; begin += COLUMNS) {
            workgroupBarrier();
            for (var i = index; i < COLUMNS * EIGHTS; i += {{INVOCATIONS}}u) {
                let position = b * p.t + min(begin + i / EIGHTS, p.t - 1u);
                tile[i / EIGHTS * PITCH + i % EIGHTS] = eight_q(position * p.qs + h * p.head, i % EIGHTS);
                tile[COLUMNS * PITCH + i / EIGHTS * PITCH + i % EIGHTS] = eight_dout(position * p.os + h * p.head, i % EIGHTS);
            }
            // Equal rows of what each column starts from, for all; those of the subgroup, where not all of its keys are seen.
            let column = index % COLUMNS;
            let at = lat + min(begin + column, p.t - 1u);
#if CAPPED
            let start = -lse[at];
            let whole = true;
#else
            let start = lse[at] / -p.scale;
            let whole = all_seen(b, begin, COLUMNS, first + mine, MINE);
#endif
            let minus_delta = -delta[at];
            for (var r = index / COLUMNS; r < {{UNIT_M}}u; r += {{INVOCATIONS}}u / COLUMNS) {
                tile[{{START}}u + r * OWN_PITCH + column / 4u][column % 4u] = bitcast<u32>(start);
                tile[{{START}}u + ({{UNIT_M}}u + r) * OWN_PITCH + column / 4u][column % 4u] = bitcast<u32>(minus_delta);
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
#for I in 0..DOWN
#for J in 0..ACROSS
#if CAPPED
            var s{{I}}_{{J}} = matrix_zero();
#else
            var s{{I}}_{{J}} = matrix_load_c(select(own + {{I}}u * {{UNIT_M}}u * OWN_PITCH, {{START}}u, whole) + {{J}}u * {{UNIT_N}}u / 4u, OWN_PITCH);
#endif
            var e{{I}}_{{J}} = matrix_load_c({{START}}u + {{UNIT_M}}u * OWN_PITCH + {{J}}u * {{UNIT_N}}u / 4u, OWN_PITCH);
#end
#end
#for S in 0..DEPTH
#for I in 0..DOWN
#if !FIRST_HELD
            let k{{I}}_{{S}} = matrix_load_a({{FIRST}}u + (mine + {{I}}u * {{UNIT_M}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#endif
#if !SECOND_HELD
            let v{{I}}_{{S}} = matrix_load_a({{SECOND}}u + (mine + {{I}}u * {{UNIT_M}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#endif
#end
#for J in 0..ACROSS
            {
                let query = matrix_load_b({{J}}u * {{UNIT_N}}u * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
                let dout_j = matrix_load_b((COLUMNS + {{J}}u * {{UNIT_N}}u) * PITCH + {{S}}u * {{UNIT_K}}u / 8u, PITCH);
#for I in 0..DOWN
                s{{I}}_{{J}} = matrix_mul_add(k{{I}}_{{S}}, query, s{{I}}_{{J}});
                e{{I}}_{{J}} = matrix_mul_add(v{{I}}_{{S}}, dout_j, e{{I}}_{{J}});
#end
            }
#end
#end
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
#import "shared/attention_matrix_store.wgsl" X=dk TO={{DK}} AT=kat STRIDE=p.ks SCALE=p.scale
#import "shared/attention_matrix_store.wgsl" X=dv TO={{DV}} AT=vat STRIDE=p.vs SCALE=1.0
}
