package shaders

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTexels(t *testing.T) {
	const source = `@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;
fn twice(a: f32) -> f32 { return 2.0 * a; }
fn main() { out[i] = a[index[i] + 1u] * p.a + twice(a[0].x); } // a[i] times a
`
	got, ok := Texels(source, 1)
	require.True(t, ok)
	require.Equal(t, `@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var a: texture_storage_2d<rgba32float, read>;
fn texel_of_a(i: u32) -> vec4<f32> { return textureLoad(a, vec2<u32>(i & 4095u, i >> 12u)); }
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;
fn twice(a: f32) -> f32 { return 2.0 * a; }
fn main() { out[i] = texel_of_a(u32(index[i] + 1u)) * p.a + twice(texel_of_a(u32(0)).x); } // a[i] times a
`, got)
	got, ok = Texels(got, 2)
	require.True(t, ok)
	require.Contains(t, got, "texel_of_a(u32(texel_of_index(u32(i)) + 1u))")
	require.Contains(t, got, "bitcast<vec4<u32>>(textureLoad(index, vec2<u32>((i >> 2u) & 4095u, (i >> 2u) >> 12u)))")

	for name, other := range map[string]string{
		"written":          "@group(0) @binding(1) var<storage, read_write> a: array<vec4<f32>>;\nfn main() { a[0] = a[1]; }",
		"a struct":         "@group(0) @binding(1) var<storage, read> a: array<Leaf>;\nfn main() { x = a[1].size; }",
		"of two":           "@group(0) @binding(1) var<storage, read> a: array<vec2<f32>>;\nfn main() { x = a[1]; }",
		"its address":      "@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;\nfn main() { n = arrayLength(&a); }",
		"a uniform":        "@group(0) @binding(1) var<uniform> a: Params;\nfn main() { x = a.x; }",
		"no such binding":  "@group(0) @binding(2) var<storage, read> a: array<vec4<f32>>;\nfn main() { x = a[1]; }",
		"an array of size": "@group(0) @binding(1) var<storage, read> a: array<f32, 4>;\nfn main() { x = a[1]; }",
	} {
		got, ok := Texels(other, 1)
		require.False(t, ok, name)
		require.Equal(t, other, got, name)
	}
}

func TestWrittenTexels(t *testing.T) {
	const source = `@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;
fn main() { out[i + 1u] = a[i] * 2.0; }
`
	got, ok := WrittenTexels(source, 1)
	require.True(t, ok)
	require.Equal(t, `@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var out: texture_storage_2d<rgba32float, write>;
fn main() { textureStore(out, vec2<u32>((i + 1u) & 4095u, (i + 1u) >> 12u), a[i] * 2.0); }
`, got)
	for name, body := range map[string]string{
		"read":        "out[0] = out[1];",
		"added to":    "out[0] += a[1];",
		"in part":     "out[0].x = 1.0;",
		"its address": "n = arrayLength(&out);",
	} {
		_, ok := WrittenTexels("@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;\nfn main() { "+body+" }", 1)
		require.False(t, ok, name)
	}
	_, ok = WrittenTexels("@group(0) @binding(1) var<storage, read_write> out: array<f32>;\nfn main() { out[0] = 1.0; }", 1)
	require.False(t, ok, "of single numbers")
	_, ok = WrittenTexels(source, 0)
	require.False(t, ok, "only read")
}
