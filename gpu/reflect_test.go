package gpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/shaders"
)

const reflected = `
struct Other { rows: f32 }
struct Params {
    rows: u32, // of a, b: u32
    block_size: i32,
    key: vec2<u32>,
    scale: f32, pad0: u32, pad: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1)
var<storage> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage,read_write> out: array<u32>;
@compute @workgroup_size(8, 4) fn main() {}`

// What a kernel binds is read from its source, however that is set.
func TestKernelIsReadFromItsSource(t *testing.T) {
	k := gpu.KernelOf("test", reflected)
	require.Equal(t, []gpu.Binding{{Name: "p", Access: gpu.Uniform}, {Name: "a", Access: gpu.Read}, {Name: "out", Access: gpu.ReadWrite}}, k.Bindings)
}

// A kernel says what workgroup memory it takes, each variable in units of 16 bytes, and one that takes more than there is is refused by name.
func TestWorkgroupMemoryIsReadFromTheSource(t *testing.T) {
	const start = "const TEAMS: u32 = 3u; const PITCH = TEAMS + 1u; // var<workgroup> not: f32;\n"
	const end = "@group(0) @binding(0) var<storage, read_write> out: array<u32>;\n@compute @workgroup_size(1) fn main() {}"
	for source, want := range map[string]int{
		"": 0, "var<workgroup> one: f32;": 16, "var<workgroup> a: array<f32, 64>;\nvar<workgroup> b: array<vec2<f32>, 5>;": 256 + 48,
		"var<workgroup> bins: array<atomic<u32>, 2 * (PITCH - 1u)>;": 32, "var<workgroup> x: array<array<array<vec4<f32>, PITCH>, 2>, TEAMS>;": 16 * 4 * 2 * 3,
	} {
		for _, limit := range []int{max(want, 1), want - 1} {
			if limit < 1 {
				continue
			}
			d := gpu.Dry(gpu.Limits{WorkgroupBytes: limit})
			b, err := d.NewBuffer("out", 16)
			require.NoError(t, err)
			rec := d.Record("test")
			rec.Dispatch(gpu.KernelOf("tile", start+source+end), gpu.Grid{X: 1, Y: 1, Z: 1}, nil, b.All())
			if limit >= want {
				require.NoError(t, rec.Err(), source)
				continue
			}
			require.ErrorContains(t, rec.Err(), "tile")
			require.ErrorContains(t, rec.Err(), fmt.Sprintf("workgroup memory: %d bytes, limit WorkgroupBytes %d", want, limit))
		}
	}
	for source, want := range map[string]string{
		"var<workgroup> s: Tile;":           `var<workgroup> s: type Tile: wanted numbers of 32 bits`,
		"var<workgroup> s: array<f32, N>;":  `var<workgroup> s: "N": wanted sums and products of figures and constants`,
		"var<workgroup> s: array<f32, 1+>;": `var<workgroup> s: "1+": `,
	} {
		_, err := gpu.KernelOf("tile", start+source+end).Params(nil)
		require.ErrorContains(t, err, want)
	}
}

// A value has the words of the shader's params, or is an error that names the first one that differs.
func TestParamsMatchTheShader(t *testing.T) {
	type params struct {
		Rows      uint32
		BlockSize int32
		Key       [2]uint32
		Scale     float32
	}
	k := gpu.KernelOf("test", reflected)
	raw, err := k.Params(params{1, -1, [2]uint32{3, 4}, 1})
	require.NoError(t, err)
	require.Equal(t, []byte("\x01\x00\x00\x00\xff\xff\xff\xff\x03\x00\x00\x00\x04\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), raw)
	raw, err = k.Params(nil)
	require.NoError(t, err)
	require.Nil(t, raw)
	for _, c := range []struct {
		name, source string
		value        any
		want         string
	}{
		{"order", reflected, struct {
			BlockSize int32
			Rows      uint32
		}{}, "word 0: found BlockSize i32, wanted rows u32"},
		{"type", reflected, struct {
			Rows      uint32
			BlockSize uint32
		}{}, "word 1: found BlockSize u32, wanted block_size i32"},
		{"width", reflected, struct{ Rows uint64 }{}, "word 0: found Rows uint64, wanted rows u32"},
		{"name", reflected, struct{ Cols uint32 }{}, "word 0: found Cols u32, wanted rows u32"},
		{"too few", reflected, struct {
			Rows      uint32
			BlockSize int32
			Key       [2]uint32
		}{}, "found 4 words, wanted scale f32 of the shader next"},
		{"too many", reflected, struct {
			params
			Pad0, Pad, More uint32
		}{}, "found 8 words, wanted 7"},
		{"numbers of other types", reflected, [5]uint32{}, "word 1: found u32, wanted block_size i32"},
		{"padding of WGSL", "struct P { a: u32, b: vec2<u32> }\n@group(0) @binding(0) var<uniform> p: P;", [3]uint32{}, "word 1: found u32, wanted b padding"},
		{"what Go has no equal for", "@group(0) @binding(0) var<uniform> p: mat2x2<f32>;", [4]float32{}, "wanted p mat2x2<f32>"},
		{"no uniform", "@group(0) @binding(0) var<storage> p: array<u32>;", [1]uint32{}, "binding 0 is not a uniform"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gpu.KernelOf("test", c.source).Params(c.value)
			assert.ErrorContains(t, err, c.want)
		})
	}
	require.Panics(t, func() { gpu.Bytes(1) }, "an int has no fixed size")
}

// A kernel is made once, and an error of its source is that of the recording which dispatches it.
func TestNewKernel(t *testing.T) {
	variant := shaders.Variant{Flags: map[string]bool{"WIDEN": true, "HALF": false}}
	require.Same(t, gpu.NewKernel("test.cast", "cast", variant), gpu.NewKernel("test.cast", "cast", variant))
	require.NotSame(t, gpu.NewKernel("test.cast", "cast", variant), gpu.NewKernel("test.widen", "cast", variant))
	rec := gpu.Dry(gpu.Limits{}).Record("bad")
	rec.Dispatch(gpu.NewKernel("test.none", "none", variant), gpu.Grid{X: 1, Y: 1, Z: 1}, nil)
	require.ErrorContains(t, rec.Err(), `gpu: record "bad": command 0: test.none: shaders: no file "none.wgsl"`)
}
