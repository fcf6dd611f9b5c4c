package model

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/graph"
)

func byteGPT(t *testing.T) Definition {
	t.Helper()
	def, err := NewGPT2(GPT2Config{Layers: 4, Heads: 4, Width: 128, Vocab: 256, Context: 128})
	require.NoError(t, err)
	return def
}

func smallDefinitions(t *testing.T) []Definition {
	t.Helper()
	gpt, err := NewGPT2(GPT2Config{Layers: 2, Heads: 2, Width: 8, Vocab: 13, Context: 6})
	require.NoError(t, err)
	untied, err := NewGPT2(GPT2Config{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6, Untied: true, Activation: "gelu_erf", Intermediate: 12, Eps: 1e-6, ResidualDropout: 0.1, AttentionDropout: 0.2})
	require.NoError(t, err)
	llama, err := NewLlama(LlamaConfig{Layers: 2, Heads: 4, KVHeads: 2, Width: 12, HeadDim: 4, Vocab: 13, Context: 6, RopeTheta: 5e5})
	require.NoError(t, err)
	tied, err := NewLlama(LlamaConfig{Layers: 1, Heads: 2, Width: 12, Vocab: 13, Context: 6, Tied: true})
	require.NoError(t, err)
	mlp, err := NewMLP(MLPConfig{Sizes: []int{5, 7, 3}, Activation: "tanh", Loss: "mse"})
	require.NoError(t, err)
	defs := []Definition{gpt, untied, llama, tied, mlp}
	for _, kind := range Kinds() {
		def, err := New(kind, smallKeys)
		require.NoError(t, err)
		defs = append(defs, def)
	}
	return defs
}

func TestParameterCounts(t *testing.T) {
	small, err := NewGPT2(GPT2Config{Layers: 12, Heads: 12, Width: 768, Vocab: 50257, Context: 1024})
	require.NoError(t, err)
	assert.Equal(t, int64(124439808), Parameters(small), "GPT-2 small, as published")
	seven, err := NewLlama(LlamaConfig{Layers: 32, Heads: 32, Width: 4096, Intermediate: 11008, Vocab: 32000, Context: 2048})
	require.NoError(t, err)
	assert.Equal(t, int64(6738415616), Parameters(seven), "Llama 7B, as published")
	// 2 embeddings, 4 blocks of 12 width^2 + 13 width, the last norm
	assert.Equal(t, int64((256+128)*128+4*(12*128*128+13*128)+2*128), Parameters(byteGPT(t)))
}

func TestFLOPsPerToken(t *testing.T) {
	def := byteGPT(t)
	flops, err := FLOPsPerToken(def, 128)
	require.NoError(t, err)
	// The rule of six a parameter of the matrices (the tied one in the head), and the scores: half of 128
	// positions are seen on average, 4*width operations each a layer, three times.
	matrices := float64(4*12*128*128 + 256*128)
	rule := 6*matrices + 3*4*4*128*64.5
	assert.InEpsilon(t, rule, flops, 0.05)
	assert.Greater(t, flops, rule)
	_, err = FLOPsPerToken(def, 129)
	require.ErrorContains(t, err, "sequence 129, want at most the context 128")
}

func TestParamsAreSortedAndAllUsed(t *testing.T) {
	for _, def := range smallDefinitions(t) {
		params := def.Params()
		assert.True(t, slices.IsSortedFunc(params, func(a, b Param) int {
			if a.Path < b.Path {
				return -1
			}
			return 1
		}), def.Kind())
		built, err := def.Build(2, min(3, def.Context()), Options{Loss: true})
		require.NoError(t, err)
		require.Len(t, built.Params, len(params))
		grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
		require.NoError(t, err)
		for i, p := range params {
			assert.Equal(t, p.Shape, built.Params[i].Shape())
			assert.Equal(t, graph.Param{Path: p.Path, Shape: p.Shape}, built.Params[i].Node().Op)
			assert.NotNil(t, grads[i], p.Path)
		}
		assert.Len(t, built.Graph.Parameters(), len(params), "no parameter but those listed")
	}
}

// What a graph multiplies rows by tells how a matrix lies: x W^T takes one of [outputs, inputs], x W one of [inputs, outputs]. A table that is
// looked up has a token for its input, as in JAX; so has a head that is one. Arrays that are read or drawn know it too.
func TestMatricesLieAsGraphsTakeThem(t *testing.T) {
	defs := smallDefinitions(t)
	for _, def := range smallDefinitions(t) {
		if def.Kind() == "mlp" {
			continue
		}
		family := families[def.Kind()]
		table := lastNames([]string{family.module(family.Embeddings[0])})
		adapted, err := WithLoRA(def, LoRA{Rank: 2, Target: []string{AllLinear}, Save: table})
		require.NoError(t, err, def.Kind())
		defs = append(defs, adapted)
	}
	for _, def := range defs {
		family, want := families[def.Kind()], map[string]bool{}
		linear := func(path string, conv bool) { want[path] = !conv }
		_, err := def.Build(1, 1, Options{Logits: true, linear: linear})
		require.NoError(t, err)
		for _, p := range def.Params() {
			switch {
			case strings.Contains(p.Path, "experts") && len(p.Shape) == 3: // a matrix for each expert
			case strings.Contains(p.Path, "lora_"), p.Path == family.Head, strings.HasSuffix(p.Path, "shared_expert_gate.weight"):
				want[p.Path] = true // PEFT's are linear layers of their own, and a gate of one output is read as it is
			case strings.HasSuffix(p.Path, "_bias"): // a row for each expert
				want[p.Path] = false
			case slices.ContainsFunc(family.Embeddings, func(table string) bool { return strings.HasSuffix(p.Path, table) }):
				want[p.Path] = false
			}
		}
		matrices := 0
		for _, s := range Specs(def) {
			if len(s.Shape) != 2 {
				assert.False(t, s.OutIn, "%s: %s", def.Kind(), s.Path)
				continue
			}
			outIn, told := want[s.Path]
			assert.True(t, told, "%s: %s: nobody reads it", def.Kind(), s.Path)
			assert.Equal(t, outIn, s.OutIn, "%s: %s", def.Kind(), s.Path)
			matrices++
		}
		assert.Positive(t, matrices)
		for _, h := range Init(def, 1) {
			assert.Equal(t, want[h.Path], h.OutIn, "%s: %s", def.Kind(), h.Path)
		}
	}
}

// A tree of levels is gone through level by level: numbers by size, words by code points.
func TestSpecsGoLevelByLevel(t *testing.T) {
	paths := []string{"Wte", "h.2.w", "h.2.x.w", "h.10.a-b", "h.10.a.w", "h.10.w", "h-", "wte"}
	// Level by level "a" comes before "a-b" and "h" before "h-", whatever follows; by code points "-" comes before ".".
	want := []string{"Wte", "h.2.w", "h.2.x.w", "h.10.a.w", "h.10.a-b", "h.10.w", "h-", "wte"}
	slices.SortFunc(paths, byLevel)
	assert.Equal(t, want, paths)
	def, err := NewLlama(LlamaConfig{Layers: 11, Heads: 1, Width: 2, Vocab: 3, Context: 2})
	require.NoError(t, err)
	var layers []int
	for _, s := range Specs(def) {
		layers = append(layers, layerNumber(s.Path))
	}
	layers = slices.Compact(layers)
	assert.Equal(t, []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1}, layers, "between the head and the embeddings, and the last norm")
}

func TestInitialLossIsThatOfGuessing(t *testing.T) {
	def, err := NewGPT2(GPT2Config{Layers: 2, Heads: 4, Width: 64, Vocab: 256, Context: 16})
	require.NoError(t, err)
	llama, err := NewLlama(LlamaConfig{Layers: 2, Heads: 4, Width: 64, Vocab: 256, Context: 16})
	require.NoError(t, err)
	for _, def := range []Definition{def, llama} {
		built, err := def.Build(2, 16, Options{Loss: true})
		require.NoError(t, err)
		text := make([]int32, 33)
		for i := range text {
			text[i] = int32("the quick brown fox jumps over the lazy dog"[i])
		}
		feeds := map[string]*graph.Array{
			InputTokens: arrayOf([]int{2, 16}, text[:32]), InputLabels: arrayOf([]int{32}, text[1:]), InputLossScale: arrayOf([]int{}, []float32{1. / 32}),
		}
		for _, h := range Init(def, 42) {
			feeds[h.Path] = arrayOf(h.Shape, h.Data)
		}
		loss, err := graph.Eval(built.Graph, feeds, built.Loss)
		require.NoError(t, err)
		assert.InDelta(t, math.Log(256), loss[0].Data[0], 0.1, def.Kind())
	}
}

func moments(data []float32) (mean, deviation float64) {
	sum, squares := 0.0, 0.0
	for _, v := range data {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	mean = sum / float64(len(data))
	return mean, math.Sqrt(squares/float64(len(data)) - mean*mean)
}

func TestInitFollowsThePapers(t *testing.T) {
	hosts := map[string]array.Host{}
	for _, h := range Init(byteGPT(t), 1) {
		hosts[h.Path] = h
	}
	for path, std := range map[string]float64{
		"wte.weight": 0.02, "wpe.weight": 0.02, "h.3.attn.c_attn.weight": 0.02, "h.0.mlp.c_fc.weight": 0.02,
		"h.0.attn.c_proj.weight": 0.02 / math.Sqrt(8), "h.3.mlp.c_proj.weight": 0.02 / math.Sqrt(8),
	} {
		data := hosts[path].Data
		mean, deviation := moments(data)
		n := math.Sqrt(float64(len(data)))
		assert.InDelta(t, 0, mean, 5*std/n, path)
		assert.InDelta(t, std, deviation, 5*std/n, path)
	}
	assert.Equal(t, slices.Repeat([]float32{1}, 128), hosts["h.1.ln_2.weight"].Data)
	assert.Equal(t, make([]float32, 128), hosts["h.1.ln_2.bias"].Data)
	assert.Equal(t, make([]float32, 384), hosts["h.1.attn.c_attn.bias"].Data)
	mlp, err := NewMLP(MLPConfig{Sizes: []int{300, 100, 10}})
	require.NoError(t, err)
	for _, h := range Init(mlp, 1) {
		if h.Path == "layers.0.weight" {
			_, deviation := moments(h.Data)
			assert.InEpsilon(t, math.Sqrt(2./300), deviation, 0.03)
		}
	}
}

func TestInitIsAFunctionOfSeedAndPath(t *testing.T) {
	def := byteGPT(t)
	larger, err := NewGPT2(GPT2Config{Layers: 5, Heads: 4, Width: 128, Vocab: 256, Context: 64})
	require.NoError(t, err)
	find := func(def Definition, seed uint64, path string) []float32 {
		for _, h := range Init(def, seed) {
			if h.Path == path {
				return h.Data
			}
		}
		t.Fatal(path)
		return nil
	}
	first := find(def, 7, "h.2.mlp.c_fc.weight")
	assert.Equal(t, first, find(def, 7, "h.2.mlp.c_fc.weight"))
	assert.Equal(t, first, find(larger, 7, "h.2.mlp.c_fc.weight"), "other parameters do not matter")
	assert.NotEqual(t, first[:8], find(def, 8, "h.2.mlp.c_fc.weight")[:8])
	assert.NotEqual(t, first[:8], find(def, 7+1<<32, "h.2.mlp.c_fc.weight")[:8], "all 64 bits of the seed count")
	assert.NotEqual(t, first[:8], find(def, 7, "h.3.mlp.c_fc.weight")[:8])
	key := pathKey(7, "h.2.mlp.c_fc.weight")
	assert.Equal(t, float32(0.02)*key.Normal(40000), first[40000], "beyond the first processor's part")
}

func TestDropoutIsOnlyInTraining(t *testing.T) {
	def, err := WithDropout(smallDefinitions(t)[0], 0.5)
	require.NoError(t, err)
	count := func(o Options) (n int, salts map[uint32]bool) {
		built, err := def.Build(2, 4, o)
		require.NoError(t, err)
		salts = map[uint32]bool{}
		for _, node := range built.Graph.Nodes() {
			if d, ok := node.Op.(graph.Dropout); ok {
				assert.Equal(t, 0.5, d.P)
				n++
				salts[d.Salt] = true
			}
		}
		return n, salts
	}
	n, salts := count(Options{Loss: true, Training: true})
	assert.Equal(t, 5, n, "embeddings, and two in each of two blocks")
	assert.Len(t, salts, 5, "each with a salt of its own")
	n, _ = count(Options{Loss: true})
	assert.Zero(t, n)
	_, err = smallDefinitions(t)[1].Build(2, 4, Options{Loss: true, Training: true})
	require.ErrorContains(t, err, "dropout 0.2 inside attention: not supported in training")
	_, err = smallDefinitions(t)[1].Build(2, 4, Options{Loss: true})
	require.NoError(t, err)
	for _, def := range smallDefinitions(t)[2:5] {
		_, err = WithDropout(def, 0.1)
		require.ErrorContains(t, err, "dropout: 0.1, want 0")
		_, err = WithDropout(def, 0)
		require.NoError(t, err)
	}
	_, err = WithDropout(def, 1)
	require.ErrorContains(t, err, "want a probability")
}

func TestMLP(t *testing.T) {
	ce, err := NewMLP(MLPConfig{Sizes: []int{2, 3}})
	require.NoError(t, err)
	built, err := ce.Build(2, 1, Options{Loss: true, Logits: true})
	require.NoError(t, err)
	feeds := map[string]*graph.Array{
		"layers.0.weight": arrayOf([]int{3, 2}, []float32{1, 2, 3, 4, 5, 6}),
		"layers.0.bias":   arrayOf([]int{3}, []float32{0, 1, -1}),
		inputFeatures:     arrayOf([]int{2, 2}, []float32{1, 0, 0, 1}),
		InputLabels:       arrayOf([]int{2}, []int32{2, -100}),
		InputLossScale:    arrayOf([]int{}, []float32{0.5}),
	}
	got, err := graph.Eval(built.Graph, feeds, built.Logits, built.Loss)
	require.NoError(t, err)
	assert.Equal(t, []float64{1, 4, 4, 2, 5, 5}, got[0].Data)
	assert.InDelta(t, 0.5*(math.Log(math.Exp(1)+2*math.Exp(4))-4), got[1].Data[0], 1e-12)

	mse, err := NewMLP(MLPConfig{Sizes: []int{2, 3}, Loss: "mse"})
	require.NoError(t, err)
	built, err = mse.Build(2, 1, Options{Loss: true})
	require.NoError(t, err)
	feeds[inputTargets] = arrayOf([]int{2, 3}, []float32{1, 4, 1, 2, 3, 5})
	got, err = graph.Eval(built.Graph, feeds, built.LossSum)
	require.NoError(t, err)
	assert.InDelta(t, (9.+4)/3, got[0].Data[0], 1e-12)
}

func TestBadConfigurations(t *testing.T) {
	good := GPT2Config{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6}
	lgood := LlamaConfig{Layers: 1, Heads: 4, Width: 16, Vocab: 13, Context: 6}
	gpt := func(change func(*GPT2Config)) error {
		c := good
		change(&c)
		_, err := NewGPT2(c)
		return err
	}
	llama := func(change func(*LlamaConfig)) error {
		c := lgood
		change(&c)
		_, err := NewLlama(c)
		return err
	}
	mlp := func(c MLPConfig) error { _, err := NewMLP(c); return err }
	require.NoError(t, gpt(func(*GPT2Config) {}))
	require.NoError(t, llama(func(*LlamaConfig) {}))
	for want, err := range map[string]error{
		"gpt2: layers: 0, want 1 to 1048576":          gpt(func(c *GPT2Config) { c.Layers = 0 }),
		"gpt2: layers: 10001, want at most 10000":     gpt(func(c *GPT2Config) { c.Layers = 10001 }),
		"gpt2: heads: 0":                              gpt(func(c *GPT2Config) { c.Heads = 0 }),
		"gpt2: width: 8, want a multiple of heads 3":  gpt(func(c *GPT2Config) { c.Heads = 3 }),
		"gpt2: vocab: -1":                             gpt(func(c *GPT2Config) { c.Vocab = -1 }),
		"gpt2: context: 1073741824":                   gpt(func(c *GPT2Config) { c.Context = 1 << 30 }),
		`gpt2: activation: "relu"`:                    gpt(func(c *GPT2Config) { c.Activation = "relu" }),
		"gpt2: residual dropout: 1,":                  gpt(func(c *GPT2Config) { c.ResidualDropout = 1 }),
		"gpt2: layer norm eps: NaN":                   gpt(func(c *GPT2Config) { c.Eps = math.NaN() }),
		"gpt2: initial deviation: -1":                 gpt(func(c *GPT2Config) { c.InitStd = -1 }),
		"llama: heads: 4, want a multiple of kv head": llama(func(c *LlamaConfig) { c.KVHeads = 3 }),
		"llama: head dim: 3, want a multiple of":      llama(func(c *LlamaConfig) { c.HeadDim = 3 }),
		"llama: heads: 0":                             llama(func(c *LlamaConfig) { c.Heads = 0 }),
		"llama: width: 16, want a multiple of heads":  llama(func(c *LlamaConfig) { c.Heads = 5 }),
		"llama: rope theta: -1":                       llama(func(c *LlamaConfig) { c.RopeTheta = -1 }),
		"mlp: sizes: [3]":                             mlp(MLPConfig{Sizes: []int{3}}),
		"mlp: size 1: 0":                              mlp(MLPConfig{Sizes: []int{3, 0, 2}}),
		`mlp: activation: "relu6"`:                    mlp(MLPConfig{Sizes: []int{3, 2}, Activation: "relu6"}),
		`mlp: loss: "hinge"`:                          mlp(MLPConfig{Sizes: []int{3, 2}, Loss: "hinge"}),
	} {
		require.ErrorContains(t, err, want)
	}
	for want, build := range map[string]func() (*Built, error){
		"neither loss nor logits": func() (*Built, error) { return byteGPT(t).Build(1, 1, Options{}) },
		"batch 0":                 func() (*Built, error) { return byteGPT(t).Build(0, 1, Options{Loss: true}) },
		"rows 2: want 0 or more":  func() (*Built, error) { return byteGPT(t).Build(1, 1, Options{Loss: true, Rows: 2}) },
		"want at most the context 1": func() (*Built, error) {
			return smallDefinitions(t)[4].Build(1, 2, Options{Loss: true})
		},
	} {
		_, err := build()
		require.ErrorContains(t, err, want)
	}
}
