// clamped_swiglu: y = (u + 1) g sigmoid(alpha g) of columns of x in turn: gates g, at most limit, and ups u, from -limit to limit; or BACK: dx of dy. An item
// of y, a number or QUADS of them, an invocation. Twins: graph.ClampedSwiGLU.Eval, graph.ClampedSwiGLUGrad.Eval.
struct Params {
    count: u32, // items of y
    limit: f32,
    alpha: f32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> x: array<{{T}}>;
#if BACK
@bind var<storage, read> dy: array<{{T}}>;
@bind var<storage, read_write> dx: array<{{T}}>;
#else
@bind var<storage, read_write> y: array<{{T}}>;
#endif

#import "shared/functions.wgsl"

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i >= p.count) {
        return;
    }
    let a = x[2u * i];
    let b = x[2u * i + 1u];
#if QUADS
    let gate = vec4<f32>(a.xz, b.xz);
    let up = vec4<f32>(a.yw, b.yw);
#else
    let gate = a;
    let up = b;
#endif
    let limit = {{T}}(p.limit);
    let g = min(gate, limit);
    let u = clamp(up, -limit, limit);
#if BACK
    let d = dy[i];
    let d_gate = select({{T}}(0.0), d * (u + 1.0) * f_sigmoid_and_slope(p.alpha * g, clamp(p.alpha * g, {{T}}(-87.0), {{T}}(87.0))), gate <= limit);
    let d_up = select({{T}}(0.0), d * g * f_sigmoid(p.alpha * g), abs(up) <= limit);
#if QUADS
    dx[2u * i] = vec4<f32>(d_gate.x, d_up.x, d_gate.y, d_up.y);
    dx[2u * i + 1u] = vec4<f32>(d_gate.z, d_up.z, d_gate.w, d_up.w);
#else
    dx[2u * i] = d_gate;
    dx[2u * i + 1u] = d_up;
#endif
#else
    y[i] = (u + 1.0) * g * f_sigmoid(p.alpha * g);
#endif
}
