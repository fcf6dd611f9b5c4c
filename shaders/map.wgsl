// map: dst[i] = expression(a[i], b[i], ...) over one slab of trees, by quads of four elements, four quads an
// invocation; fill is a map of no trees.
// Twin: the expression itself, in Go. Bindings, loads and the expression come from buffers/map.go.
#import "shared/bf16.wgsl"

struct Params {
    quads: u32,
    value: u32, // bits of the value of fill
}

@bind var<uniform> params: Params;
{{BINDINGS}}

#import "shared/main.wgsl" LANES=256
{
    let first = grid_index(workgroup, workgroups, lane, 1024u);
    let end = min(params.quads, first + 1024u);
    for (var i = first; i < end; i = i + 256u) {
        {{LOADS}}
        var value: {{TYPE}} = {{EXPRESSION}};
#if PADDED
        // A byte of extents says how many elements of a block of 128 are in use; the others stay zero.
        let block = i >> 5u;
        let used = (extents[block >> 2u] >> ((block & 3u) * 8u)) & 0xffu;
        let element = vec4<u32>((i & 31u) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        value = select({{TYPE}}(), value, element < vec4<u32>(used));
#endif
        dst[i] = {{STORE}};
    }
}
