package model

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// stepFeeds are numbers for every input of a small definition and the parameters given.
func stepFeeds(def Definition, params map[string]*graph.Array) (feeds map[string]*graph.Array, batch, seq int) {
	feeds = map[string]*graph.Array{
		InputTokens:     arrayOf([]int{2, 5}, []int32{1, 2, 3, 4, 12, 0, 12, 2, 2, 2}),
		InputLabels:     arrayOf([]int{10}, []int32{2, 3, -100, 12, 0, 12, 2, 2, 2, 1}),
		InputLossScale:  arrayOf([]int{}, []float32{1. / 9}),
		InputDropoutKey: arrayOf([]int{2}, []uint32{3, 4000000000}),
		inputFeatures:   {Shape: []int{2, 5}},
		inputTargets:    {Shape: []int{2, 3}},
	}
	for i := range 10 {
		feeds[inputFeatures].Data = append(feeds[inputFeatures].Data, float64(float32(math.Sin(float64(i)))))
	}
	for i := range 6 {
		feeds[inputTargets].Data = append(feeds[inputTargets].Data, float64(float32(math.Cos(float64(i)))))
	}
	for path, a := range params {
		feeds[path] = a
	}
	if def.Kind() == "mlp" {
		return feeds, 2, 1
	}
	return feeds, 2, 5
}

// step is the loss, the logits and the gradients of all that a definition trains, by the reference evaluation.
func step(t *testing.T, def Definition, params map[string]*graph.Array) []*graph.Array {
	t.Helper()
	feeds, batch, seq := stepFeeds(def, params)
	built, err := def.Build(batch, seq, Options{Loss: true, Logits: true})
	require.NoError(t, err)
	wrt := built.Params
	if own := AdapterParams(def); own != nil {
		wrt = slices.DeleteFunc(slices.Clone(wrt), func(v *graph.Value) bool { return !slices.Contains(own, paramOf(v)) })
	}
	gradients, err := graph.Gradients(built.Graph, built.Loss, wrt)
	require.NoError(t, err)
	got, err := graph.Eval(built.Graph, feeds, append([]*graph.Value{built.Loss, built.Logits}, gradients...)...)
	require.NoError(t, err)
	return got
}

func initial(def Definition) map[string]*graph.Array {
	params := map[string]*graph.Array{}
	for _, h := range Init(def, 5) {
		params[h.Path] = arrayOf(h.Shape, h.Data)
	}
	return params
}

// TestQuantizedNetworkIsThatOfQuantizedParameters: loss, logits and gradients are those of the network without quantization at the quantized
// parameters, to the last bit, also where one is read twice.
func TestQuantizedNetworkIsThatOfQuantizedParameters(t *testing.T) {
	for _, def := range smallDefinitions(t) {
		if def.Kind() == "gpt2" {
			var err error
			def, err = WithDropout(def, 0)
			require.NoError(t, err)
		}
		for _, mode := range graph.QuantizeModes {
			for _, match := range [][]string{nil, {"weight$"}, {"^wte|^model.embed|^layers.0.bias", "norm|ln_|^layers.1"}} {
				q, err := WithQuantization(def, Quantization{Mode: mode, Match: match})
				if match != nil && err != nil { // the last expressions are not for all
					require.ErrorContains(t, err, "matches no parameter")
					continue
				}
				require.NoError(t, err)
				params := initial(def)
				at := map[string]*graph.Array{}
				changed := 0
				for path, a := range params {
					at[path] = a
					matched := strings.HasSuffix(path, ".weight") && len(a.Shape) == 2 && strings.ContainsAny(path, "0123456789")
					if match != nil {
						matched = slices.ContainsFunc(match, func(m string) bool { return contains(t, m, path) })
					}
					if matched {
						g := graph.New()
						y, err := graph.Eval(g, map[string]*graph.Array{path: a}, g.Quantize(g.Param(path, a.Shape...), graph.Quantize{Mode: mode}.Or()))
						require.NoError(t, err)
						at[path] = y[0]
						changed++
					}
				}
				_, count := QuantizationOf(q)
				assert.Equal(t, changed, count)
				_, batch, seq := stepFeeds(def, params)
				built, err := q.Build(batch, seq, Options{Loss: true, Logits: true})
				require.NoError(t, err)
				assert.Equal(t, changed, strings.Count(built.Graph.String(), "= quantize("), "each once")
				for _, p := range built.Params {
					assert.IsType(t, graph.Param{}, p.Node().Op, "what is trained has all its bits")
				}
				want, got := step(t, def, at), step(t, q, params)
				assert.Equal(t, want, got, "%s %s %q", def.Kind(), mode, match)
				assert.NotEqual(t, step(t, def, params)[0], got[0], "%s %s %q", def.Kind(), mode, match)
			}
		}
		plain, err := FLOPsPerToken(def, 1)
		require.NoError(t, err)
		q, err := WithQuantization(def, Quantization{Mode: "nf4"})
		require.NoError(t, err)
		work, err := FLOPsPerToken(q, 1)
		require.NoError(t, err)
		assert.Equal(t, plain, work)
	}
}

// contains tells whether one of the alternatives of an expression, all of them words with ^ or $, is in path.
func contains(t *testing.T, match, path string) bool {
	t.Helper()
	for _, word := range strings.Split(match, "|") {
		begins, ends := strings.HasPrefix(word, "^"), strings.HasSuffix(word, "$")
		word = strings.Trim(word, "^$")
		if begins && strings.HasPrefix(path, word) || ends && strings.HasSuffix(path, word) || !begins && !ends && strings.Contains(path, word) {
			return true
		}
	}
	return false
}

// TestQuantizationIsInConfig: config.json carries it, no other program's parameters change for it, and it is replaced, not added to.
func TestQuantizationIsInConfig(t *testing.T) {
	for _, def := range smallDefinitions(t) {
		q, err := WithQuantization(def, Quantization{Mode: "affine", Match: []string{"0"}})
		require.NoError(t, err)
		raw, err := ConfigJSON(q, "F32")
		require.NoError(t, err)
		back, err := ParseConfig(raw)
		require.NoError(t, err)
		again, err := ConfigJSON(back, "F32")
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(again))
		found, _ := QuantizationOf(back)
		assert.Equal(t, Quantization{Mode: "affine", Bits: 4, Group: 64, Match: []string{"0"}}, found)
		assert.Equal(t, "affine of 4 bits in groups of 64", found.String())
		assert.Equal(t, def.Params(), back.Params())

		other, err := WithQuantization(back, Quantization{Mode: "mxfp4"})
		require.NoError(t, err)
		found, _ = QuantizationOf(other)
		assert.Equal(t, Quantization{Mode: "mxfp4", Group: 32}, found)
		assert.Equal(t, "mxfp4 in groups of 32", found.String())
		none, err := WithQuantization(other, Quantization{})
		require.NoError(t, err)
		plain, err := ConfigJSON(def, "F32")
		require.NoError(t, err)
		raw, err = ConfigJSON(none, "F32")
		require.NoError(t, err)
		assert.Equal(t, string(plain), string(raw))
		if def.Kind() != "gpt2" {
			continue
		}
		dropped, err := WithDropout(q, 0.5)
		require.NoError(t, err)
		still, _ := QuantizationOf(dropped)
		assert.Equal(t, "affine", still.Mode)
	}
}

func TestQuantizationErrors(t *testing.T) {
	for want, q := range map[string]Quantization{
		`model: quantize: mode "nf8", want one of`:                   {Mode: "nf8"},
		"model: quantize: bits 9, want 2 to 8":                       {Mode: "affine", Bits: 9},
		"model: quantize: group 64, want 32, which belongs to mxfp8": {Mode: "mxfp8", Group: 64},
		`model: quantize: match: "h.9" matches no parameter`:         {Mode: "nf4", Match: []string{"h.0", "h.9"}},
		"model: quantize: match: error parsing regexp":               {Mode: "nf4", Match: []string{"("}},
		"match: expressions of 4097 bytes, want at most 4096":        {Mode: "nf4", Match: []string{"weight", strings.Repeat("w", 4091)}},
		`model: quantize: bits 4, group 0, match [] without a mode`:  {Bits: 4},
	} {
		_, err := WithQuantization(byteGPT(t), q)
		assert.ErrorContains(t, err, want)
	}
	for want, raw := range map[string]string{
		`fake_quantization: json: unknown field "modus"`: `{"modus": "nf4"}`,
		"want one of":             `{"mode": "nf8"}`,
		"cannot unmarshal string": `"nf4"`,
		"without a mode":          `{"group": 64}`,
	} {
		_, err := ParseConfig([]byte(strings.Replace(hubGPT2, "{", `{"fake_quantization": `+raw+",", 1)))
		assert.ErrorContains(t, err, want)
	}
}
