// ragged_outer: y = a^T b over the rows of each expert, in their order. A workgroup takes 16 rows and 64 columns of the matrix of an expert; a part of y has those
// from first on. F16: operands are rounded to f16. Twin: graph.RaggedOuter.Eval.
struct Params {
    a_width: u32,
    b_width: u32,
    first: u32,
    unused: u32,
}
@bind var<uniform> p: Params;
@bind var<storage, read> a: array<f32>;
@bind var<storage, read> b: array<f32>;
@bind var<storage, read> offsets: array<i32>;
@bind var<storage, read_write> y: array<f32>;

#if F16
#import "shared/half.wgsl"
#endif
var<workgroup> staged: array<vec4<f32>, 64>; // [16 rows, quads of columns of a]

#import "shared/main.wgsl" LANES=64
{
    let column = workgroup.x * 64u + lane;
    let top = workgroup.y * 16u;
    let end = u32(offsets[p.first + workgroup.z + 1u]);
#for Q in 0..4
    var sum{{Q}} = vec4<f32>();
#end
    for (var row = u32(offsets[p.first + workgroup.z]); row < end; row += 16u) {
        let at = (row + lane / 4u) * p.a_width;
        let into = top + lane % 4u * 4u;
        var quad = vec4<f32>();
        if (row + lane / 4u < end) {
#for I in 0..4
            if (into + {{I}}u < p.a_width) {
                quad[{{I}}] = {{LOAD}}(a[at + into + {{I}}u]);
            }
#end
        }
        staged[lane] = quad;
        workgroupBarrier();
        for (var i = 0u; i < min(16u, end - row); i++) {
            var value = 0.0;
            if (column < p.b_width) {
                value = {{LOAD}}(b[(row + i) * p.b_width + column]);
            }
#for Q in 0..4
            sum{{Q}} += value * staged[i * 4u + {{Q}}u];
#end
        }
        workgroupBarrier();
    }
    if (column < p.b_width) {
#for Q in 0..4
#for I in 0..4
        if (top + {{Q}}u * 4u + {{I}}u < p.a_width) {
            y[(workgroup.z * p.a_width + top + {{Q}}u * 4u + {{I}}u) * p.b_width + column] = sum{{Q}}[{{I}}];
        }
#end
#end
    }
}
