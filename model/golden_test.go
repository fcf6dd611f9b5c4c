package model

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/graph"
)

// goldens are models whose losses, logits and gradients an independent float64 program made.
const goldens = "../cmd/gputrain/doctor/cases"

var goldenNames = []string{"gpt2_tied", "llama_mha", "llama_gqa"}

// familyNames are those of one model of each family, or of what a family may have.
var familyNames = []string{
	"gemma2_small", "gemma3_small", "llama_rope_llama3", "mistral_window", "olmo2_postnorm", "phi3_fused", "qwen2_bias", "qwen2_yarn", "qwen3_qknorm",
	"smollm3_nope", "granite_dense", "granite_micro", "ministral3_small", "olmo3_small", "gemma4_small", "lfm2_small", "qwen3_5_small",
	"qwen3_5_wrapped",
}

type golden struct {
	dir     string
	def     Definition
	tensors *safetensors.File
	params  map[string][]float32
	Batch   int
	SeqLen  int `json:"seq_len"`
	Losses  []float64
}

func readGolden(t *testing.T, name string) golden {
	t.Helper()
	g := golden{dir: filepath.Join(goldens, name), params: map[string][]float32{}}
	if slices.Contains(familyNames, name) {
		g.dir = filepath.Join("testdata", "models", name)
	}
	raw, err := os.ReadFile(filepath.Join(g.dir, "case.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &g))
	def, hosts, err := readHF(g.dir)
	require.NoError(t, err)
	g.def = def
	for _, h := range hosts {
		g.params[h.Path] = h.Data
	}
	g.tensors, err = safetensors.Open(filepath.Join(g.dir, "tensors.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { g.tensors.Close() })
	return g
}

// batch is the first step's tokens [batch, seq] and labels [batch*seq].
func (g golden) batch(t *testing.T) (tokens, labels []int32) {
	t.Helper()
	all, err := g.tensors.Int32("tokens")
	require.NoError(t, err)
	for row := range g.Batch {
		window := all[row*(g.SeqLen+1) : (row+1)*(g.SeqLen+1)]
		tokens = append(tokens, window[:g.SeqLen]...)
		labels = append(labels, window[1:]...)
	}
	if slices.Contains(g.tensors.Names(), "labels") {
		all, err := g.tensors.Int32("labels")
		require.NoError(t, err)
		labels = all[:g.Batch*g.SeqLen]
	}
	return tokens, labels
}

func arrayOf[T int32 | float32 | uint32](shape []int, data []T) *graph.Array {
	a := &graph.Array{Shape: shape, Data: make([]float64, len(data))}
	for i, v := range data {
		a.Data[i] = float64(v)
	}
	return a
}

func (g golden) feeds(t *testing.T, scale float32) map[string]*graph.Array {
	tokens, labels := g.batch(t)
	feeds := map[string]*graph.Array{
		InputTokens:    arrayOf([]int{g.Batch, g.SeqLen}, tokens),
		InputLabels:    arrayOf([]int{g.Batch * g.SeqLen}, labels),
		InputLossScale: arrayOf([]int{}, []float32{scale}),
	}
	for _, p := range g.def.Params() {
		feeds[p.Path] = arrayOf(p.Shape, g.params[p.Path])
	}
	return feeds
}

// near compares with want relative to its largest element: the goldens are float64
// rounded to float32, the evaluation is float64 of the same float32 weights.
func near(t *testing.T, name string, want []float32, got *graph.Array) {
	t.Helper()
	require.Len(t, got.Data, len(want), name)
	largest, worst, at := 0.0, 0.0, 0
	for _, w := range want {
		largest = math.Max(largest, math.Abs(float64(w)))
	}
	for i, w := range want {
		if diff := math.Abs(got.Data[i] - float64(w)); !(diff <= worst) {
			worst, at = diff, i
		}
	}
	// 1e-8: the key bias of GPT-2 has an exactly zero gradient, of which rounding is left.
	assert.True(t, worst <= 2e-7*largest+1e-8, "%s[%d]: got %v, want %v, largest %v", name, at, got.Data[at], want[at], largest)
}

func TestGoldenLossLogitsAndGradients(t *testing.T) {
	for _, name := range slices.Concat(goldenNames, familyNames) {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			built, err := g.def.Build(g.Batch, g.SeqLen, Options{Loss: true, Logits: true})
			require.NoError(t, err)
			grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
			require.NoError(t, err)
			feeds, n := g.feeds(t, 1), 0.0
			for _, label := range feeds[InputLabels].Data {
				if label != graph.IgnoreLabel {
					n++
				}
			}
			feeds[InputLossScale].Data[0] = 1 / n
			results, err := graph.Eval(built.Graph, feeds, append([]*graph.Value{built.Loss, built.LossSum, built.Logits}, grads...)...)
			require.NoError(t, err)
			assert.InDelta(t, g.Losses[0], results[0].Data[0], 1e-9)
			assert.InDelta(t, g.Losses[0]*n, results[1].Data[0], 1e-7)
			logits, err := g.tensors.Float32("expect/0/logits")
			require.NoError(t, err)
			near(t, "logits", logits, results[2])
			named := map[string]string{} // what the file calls gradients
			for _, name := range g.tensors.Names() {
				if rest, ok := strings.CutPrefix(name, "expect/0/grads/"); ok {
					named[PathOf(g.def, rest)] = name
				}
			}
			for i, p := range g.def.Params() {
				if p.Fixed {
					continue
				}
				want, err := g.tensors.Float32(named[p.Path])
				require.NoError(t, err)
				near(t, p.Path, want, results[3+i])
			}
		})
	}
}

// An ignored label takes its row out of the loss; the loss counts the others.
func TestIgnoredLabels(t *testing.T) {
	g := readGolden(t, "gpt2_tied")
	built, err := g.def.Build(g.Batch, g.SeqLen, Options{Loss: true, Logits: true})
	require.NoError(t, err)
	feeds := g.feeds(t, 1)
	labels := feeds[InputLabels].Data
	for i := range labels {
		if i%3 != 1 {
			labels[i] = graph.IgnoreLabel
		}
	}
	got, err := graph.Eval(built.Graph, feeds, built.LossSum, built.Logits)
	require.NoError(t, err)
	want, vocab := 0.0, g.def.Vocab()
	for i := 1; i < len(labels); i += 3 {
		row, sum := got[1].Data[i*vocab:(i+1)*vocab], 0.0
		for _, v := range row {
			sum += math.Exp(v)
		}
		want += math.Log(sum) - row[int(labels[i])]
	}
	assert.InDelta(t, want, got[0].Data[0], 1e-9)
}

// Chosen rows of the logits are the rows of all logits.
func TestRowsOfLogits(t *testing.T) {
	for _, name := range goldenNames {
		g := readGolden(t, name)
		all, err := g.def.Build(1, g.SeqLen, Options{Logits: true})
		require.NoError(t, err)
		some, err := g.def.Build(1, g.SeqLen, Options{Logits: true, Rows: 2})
		require.NoError(t, err)
		feeds := g.feeds(t, 1)
		feeds[InputTokens] = &graph.Array{Shape: []int{1, g.SeqLen}, Data: feeds[InputTokens].Data[:g.SeqLen]}
		feeds[InputRows] = arrayOf([]int{2}, []int32{7, 3})
		want, err := graph.Eval(all.Graph, feeds, all.Logits)
		require.NoError(t, err)
		got, err := graph.Eval(some.Graph, feeds, some.Logits)
		require.NoError(t, err)
		v := g.def.Vocab()
		assert.Equal(t, want[0].Data[7*v:8*v], got[0].Data[:v])
		assert.Equal(t, want[0].Data[3*v:4*v], got[0].Data[v:])
	}
}

// cachesAfter are the caches of a graph as it leaves them, and the names of their inputs.
func cachesAfter(built *Built) (after []*graph.Value, names []string) {
	for _, cache := range built.Caches {
		names = append(names, cache.Node().Op.(graph.Input).Name)
		for _, n := range built.Graph.Nodes() {
			if goesOn(n.Op) && n.Inputs[0] == cache {
				cache = n.Outputs[1]
			}
		}
		after = append(after, cache)
	}
	return after, names
}

// A sequence taken in piece by piece, its keys and values kept, has the logits of the whole, in whatever pieces, and whatever the cache held
// before. A row computed again, as the last piece may begin with some, changes nothing.
func TestWindowGoesOn(t *testing.T) {
	for _, name := range slices.Concat(goldenNames, familyNames) {
		g := readGolden(t, name)
		seq, vocab := g.SeqLen, g.def.Vocab()
		whole, err := g.def.Build(2, seq, Options{Logits: true})
		require.NoError(t, err)
		feeds := g.feeds(t, 1)
		tokens := feeds[InputTokens].Data[:2*seq]
		feeds[InputTokens] = &graph.Array{Shape: []int{2, seq}, Data: tokens}
		want, err := graph.Eval(whole.Graph, feeds, whole.Logits)
		require.NoError(t, err)
		for _, pieces := range [][][2]int{{{0, seq}}, {{0, 3}, {3, 1}, {4, seq - 4}}, {{0, 5}, {2, 5}, {7, 1}}, {{0, 1}, {1, 1}, {2, 1}}} {
			caches := map[string]*graph.Array{}
			for _, piece := range pieces {
				first, n := piece[0], piece[1]
				if Recurrent(g.def) && first == 2 {
					break // a state does not go back
				}
				built, err := g.def.Build(2, n, Options{Logits: true, Window: seq})
				require.NoError(t, err)
				require.NotEmpty(t, built.Caches)
				feeds[InputTokens], feeds[InputPositions] = &graph.Array{Shape: []int{2, n}}, &graph.Array{Shape: []int{2, n}}
				feeds[InputRow] = &graph.Array{Shape: []int{2, n}, Data: slices.Concat(slices.Repeat([]float64{0}, n), slices.Repeat([]float64{1}, n))}
				for b := range 2 {
					feeds[InputTokens].Data = append(feeds[InputTokens].Data, tokens[b*seq+first:b*seq+first+n]...)
					for i := range n {
						feeds[InputPositions].Data = append(feeds[InputPositions].Data, float64(first+i))
					}
				}
				after, names := cachesAfter(built)
				ask := append([]*graph.Value{built.Logits}, after...)
				require.Len(t, names, len(built.Caches))
				for i, cache := range built.Caches {
					require.Equal(t, names[i], cache.Node().Op.(graph.Input).Name)
					if feeds[names[i]] = caches[names[i]]; feeds[names[i]] == nil {
						feeds[names[i]] = &graph.Array{Shape: cache.Shape(), Data: slices.Repeat([]float64{7}, cache.Type().Elements())}
					}
				}
				got, err := graph.Eval(built.Graph, feeds, ask...)
				require.NoError(t, err)
				for i, name := range names {
					caches[name] = got[1+i]
				}
				for b := range 2 {
					for i := range n {
						at, from := (b*n+i)*vocab, (b*seq+first+i)*vocab
						assert.InDeltaSlice(t, want[0].Data[from:from+vocab], got[0].Data[at:at+vocab], 1e-12, "%s: pieces %v, position %d", name, pieces, first+i)
					}
				}
			}
		}
	}
}

// goesOn tells whether an operation changes a cache, its first input, into its second output.
func goesOn(op graph.Op) bool {
	switch op.(type) {
	case graph.CachedAttention, graph.CachedConvolution, graph.CachedDelta:
		return true
	}
	return false
}

// What cannot go on is refused.
func TestWindowRefused(t *testing.T) {
	def, err := NewGPT2(GPT2Config{Layers: 1, Heads: 1, Width: 4, Vocab: 5, Context: 8})
	require.NoError(t, err)
	for _, o := range []Options{{Logits: true, Loss: true, Window: 8}, {Logits: true, Training: true, Window: 8}, {Logits: true, Window: 3}, {Logits: true, Window: 9}} {
		_, err := def.Build(1, 4, o)
		assert.ErrorContains(t, err, "want 4 to the context 8, for logits alone")
	}
	mlp, err := NewMLP(MLPConfig{Sizes: []int{2, 3, 2}})
	require.NoError(t, err)
	_, err = mlp.Build(4, 1, Options{Logits: true, Window: 1})
	assert.ErrorContains(t, err, "window 1: want 0")
}

// tinySizes are keys of a config.json of any decoder.
const tinySizes = `"hidden_size": 6, "intermediate_size": 7, "vocab_size": 11, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
	"max_position_embeddings": 5, "num_hidden_layers": 2, "sliding_window": null, "initializer_range": 0.05, "tie_word_embeddings": false}`

// What the goldens lack: an untied GPT-2, a tied Llama, a head dimension of its own, the
// erf form, all biases, an untied Gemma with caps. Their loss is compared with the cross entropy of their logits, and their gradients with
// central differences at a few elements of every parameter.
func TestVariantsAgainstFiniteDifferences(t *testing.T) {
	must := func(def Definition, err error) Definition {
		require.NoError(t, err)
		return def
	}
	for i, def := range []Definition{
		must(NewGPT2(GPT2Config{Layers: 1, Heads: 2, Width: 6, Vocab: 11, Context: 5, Untied: true, Activation: "gelu_erf", Intermediate: 7})),
		must(NewLlama(LlamaConfig{Layers: 1, Heads: 4, KVHeads: 2, Width: 6, HeadDim: 4, Vocab: 11, Context: 5, Intermediate: 7, Tied: true, RopeTheta: 100})),
		must(ParseConfig([]byte(`{"model_type": "llama", "attention_bias": true, "mlp_bias": true, "rope_scaling": {"type": "linear", "factor": 2}, ` + tinySizes))),
		must(ParseConfig([]byte(`{"model_type": "gemma3_text", "query_pre_attn_scalar": 9, "final_logit_softcapping": 2, "attn_logit_softcapping": 1, ` + tinySizes))),
		must(ParseConfig([]byte(`{"model_type": "gemma4_text", "global_head_dim": 6, "layer_types": ["full_attention", "full_attention"], "num_kv_shared_layers": 1, "attention_k_eq_v": true,
			"attention_bias": true, "use_double_wide_mlp": true, "hidden_size_per_layer_input": 3, "rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 9,
			"partial_rotary_factor": 0.7}}, ` + tinySizes))),
	} {
		t.Run(def.Kind(), func(t *testing.T) {
			built, err := def.Build(2, 4, Options{Loss: true})
			require.NoError(t, err)
			grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
			require.NoError(t, err)
			feeds := map[string]*graph.Array{
				InputTokens:    arrayOf([]int{2, 4}, []int32{1, 2, 3, 4, 10, 0, 10, 2}),
				InputLabels:    arrayOf([]int{8}, []int32{2, 3, 4, -100, 0, 10, 2, 5}),
				InputLossScale: arrayOf([]int{}, []float32{0.25}),
			}
			for _, h := range Init(def, uint64(i)) {
				feeds[h.Path] = arrayOf(h.Shape, h.Data)
				for j := range feeds[h.Path].Data { // larger than at the beginning, so that all parts count
					feeds[h.Path].Data[j] *= 10
				}
			}
			exact, err := graph.Eval(built.Graph, feeds, grads...)
			require.NoError(t, err)
			loss := func() float64 {
				v, err := graph.Eval(built.Graph, feeds, built.Loss)
				require.NoError(t, err)
				return v[0].Data[0]
			}
			for k, p := range def.Params() {
				data := feeds[p.Path].Data
				for _, j := range []int{0, len(data) / 2, len(data) - 1} {
					const h = 1e-6
					was := data[j]
					data[j] = was + h
					up := loss()
					data[j] = was - h
					down := loss()
					data[j] = was
					assert.InDelta(t, (up-down)/(2*h), exact[k].Data[j], 1e-7, fmt.Sprintf("%s[%d]", p.Path, j))
				}
			}
		})
	}
}
