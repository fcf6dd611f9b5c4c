package compile

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/shaders"
)

var (
	paramsPattern = regexp.MustCompile(`(?s)struct Params \{(.*?)\}`)
	fieldPattern  = regexp.MustCompile(`(?m)^\s*(\w+): (u32|i32|f32),`)
)

// TestParamsMatchShaders compares the fields of each params struct with those of the kernel's uniform, in order: all are
// four bytes, so the order is the layout. A struct may have more fields than a shader that shares it reads.
func TestParamsMatchShaders(t *testing.T) {
	rows := shaders.Variant{Flags: map[string]bool{"VECTOR": false, "GROUP": false}, Constants: map[string]string{"T": "f32"}}
	norms := shaders.Variant{Flags: map[string]bool{"VECTOR": false, "GROUP": false, "RMS": false}, Constants: map[string]string{"T": "f32"}}
	rope := shaders.Variant{Flags: map[string]bool{"INVERSE": false, "POSITIONS": false}, Constants: map[string]string{"T": "f32"}}
	appended := shaders.Variant{Flags: map[string]bool{"PACKED": true}, Constants: map[string]string{"ELEMENT": "f32", "K": "qkv", "V": "qkv"}}
	cached := shaders.Variant{Flags: map[string]bool{"SCALAR": false, "PARTS": false}, Constants: map[string]string{
		"ELEMENT": "vec4<f32>", "HEAD_DIM": "4", "QUADS": "1", "WX": "8", "KEYS": "4", "HANDED": "4",
	}}
	quantize := quantizeVariant(graph.Quantize{Mode: "affine", Bits: 4})
	for _, k := range []struct {
		shader  string
		variant shaders.Variant
		params  any
	}{
		{"norm", norms, normParams{}},
		{"norm_grad", norms, normParams{}},
		{"softmax", rows, rowParams{}},
		{"softmax_grad", rows, rowParams{}},
		{"rope", rope, ropeParams{}},
		{"attention_append", appended, appendParams{}},
		{"attention_cached", cached, cachedParams{}},
		{"attention_merge", shaders.Variant{}, mergeParams{}},
		{"quantize", quantize, quantizeParams{}},
	} {
		source, err := shaders.Source(k.shader+".wgsl", k.variant)
		require.NoError(t, err)
		fields := fieldPattern.FindAllStringSubmatch(paramsPattern.FindStringSubmatch(source)[1], -1)
		require.NotEmpty(t, fields)
		typ := reflect.TypeOf(k.params)
		for i, f := range fields {
			require.Equal(t, f[1], strings.ToLower(typ.Field(i).Name), k.shader)
			require.Equal(t, map[string]string{"u32": "uint32", "f32": "float32"}[f[2]], typ.Field(i).Type.Name(), k.shader)
		}
	}
}
