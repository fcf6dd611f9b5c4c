package shaders

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBF16(t *testing.T) {
	const source = `@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> s: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;
fn main() {
    let a_0 = a[i + u32(a[0].x)] * s[i];
    out[i] = select(a_0, out[i] + a_0, later); // out[i] = 1
    out[i / 2u] *= a_0;
}
`
	rewritten := func(source string, bindings ...int) string {
		t.Helper()
		for _, b := range bindings {
			var ok bool
			source, ok = BF16(source, b, b == 0, false)
			require.True(t, ok)
		}
		text, functions, ok := strings.Cut(source, "\n// bfloat16,")
		require.True(t, ok)
		require.NotContains(t, functions, "// bfloat16,", "they are there once")
		return text
	}
	require.Equal(t, `@group(0) @binding(0) var<storage, read> a: array<vec4<u32>>;
fn bf16_of_a(i: u32) -> vec4<f32> { let w = a[i / 2u]; return bf16_unpack4(select(w.xy, w.zw, (i & 1u) == 1u)); }
@group(0) @binding(1) var<storage, read> s: array<u32>;
fn bf16_of_s(i: u32) -> f32 { let w = s[i / 2u]; return bitcast<f32>(select(w << 16u, w & 0xffff0000u, (i & 1u) == 1u)); }
@group(0) @binding(2) var<storage, read_write> out: array<vec2<u32>>;
fn bf16_of_out(i: u32) -> vec4<f32> { return bf16_unpack4(out[i]); }
fn main() {
    let a_0 = bf16_of_a(u32(i + u32(bf16_of_a(u32(0)).x))) * bf16_of_s(u32(i));
    out[i] = bf16_pack4(select(a_0, bf16_of_out(u32(i)) + a_0, later)); // out[i] = 1
    out[i / 2u] = bf16_pack4(bf16_of_out(u32(i / 2u)) * (a_0));
}
`, rewritten(source, 0, 1, 2))
	require.NotContains(t, rewritten("@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;\nfn main() { y[0] = v; }", 1), "bf16_of_y", "nothing reads it")

	for name, other := range map[string]string{
		"single numbers":  "@group(0) @binding(1) var<storage, read_write> a: array<f32>;\nfn main() { a[0] = 1.0; }",
		"one component":   "@group(0) @binding(1) var<storage, read_write> a: array<vec4<f32>>;\nfn main() { a[0].x = 1.0; }",
		"whole numbers":   "@group(0) @binding(1) var<storage, read> a: array<u32>;\nfn main() { x = a[1]; }",
		"its address":     "@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;\nfn main() { n = arrayLength(&a); }",
		"a uniform":       "@group(0) @binding(1) var<uniform> a: Params;\nfn main() { x = a.x; }",
		"no such binding": "@group(0) @binding(2) var<storage, read> a: array<vec4<f32>>;\nfn main() { x = a[1]; }",
	} {
		got, ok := BF16(other, 1, false, false)
		require.False(t, ok, name)
		require.Equal(t, other, got, name)
	}
}
