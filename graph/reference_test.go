package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
)

const caseFolder = "../cmd/gputrain/doctor/cases"

// golden is a case of kind model; its format is that of the reference cases.
type golden struct {
	Batch     int
	SeqLen    int `json:"seq_len"`
	HeadDim   int `json:"head_dim"`
	Losses    []float64
	Tolerance map[string]tolerance

	model, tensors *safetensors.File
}

type tolerance struct {
	RTol       float64 `json:"rtol"`
	ATol       float64 `json:"atol"`
	ATolRelMax float64 `json:"atol_rel_max"`
}

// modelConfig has the keys of both families.
type modelConfig struct {
	Heads      int     `json:"n_head"`
	Layers     int     `json:"n_layer"`
	Positions  int     `json:"n_positions"`
	Width      int     `json:"n_embd"`
	Vocab      int     `json:"vocab_size"`
	LayerEps   float64 `json:"layer_norm_epsilon"`
	LlamaHeads int     `json:"num_attention_heads"`
	KVHeads    int     `json:"num_key_value_heads"`
	Blocks     int     `json:"num_hidden_layers"`
	Hidden     int     `json:"hidden_size"`
	Inner      int     `json:"intermediate_size"`
	RMSEps     float64 `json:"rms_norm_eps"`
	Theta      float64 `json:"rope_theta"`
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, to))
}

func readGolden(t *testing.T, name string) (golden, modelConfig) {
	t.Helper()
	var c golden
	var m modelConfig
	dir := filepath.Join(caseFolder, name)
	readJSON(t, filepath.Join(dir, "case.json"), &c)
	readJSON(t, filepath.Join(dir, "config.json"), &m)
	for file, to := range map[string]**safetensors.File{"model": &c.model, "tensors": &c.tensors} {
		f, err := safetensors.Open(filepath.Join(dir, file+".safetensors"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		*to = f
	}
	return c, m
}

func floats(t *testing.T, f *safetensors.File, name string) *Array {
	t.Helper()
	_, shape, ok := f.Info(name)
	require.True(t, ok, name)
	data, err := f.Float32(name)
	require.NoError(t, err)
	a := NewArray(shape)
	for i, x := range data {
		a.Data[i] = float64(x)
	}
	return a
}

// feeds are those of the first step: inputs and labels [B,T] as vectors, and the scale of a mean.
func (c golden) feeds(t *testing.T) map[string]*Array {
	t.Helper()
	tokens, err := c.tensors.Int32("tokens")
	require.NoError(t, err)
	ids, labels := NewArray([]int{c.Batch, c.SeqLen}), NewArray([]int{c.Batch * c.SeqLen})
	for b := range c.Batch {
		for i := range c.SeqLen {
			ids.Data[b*c.SeqLen+i] = float64(tokens[b*(c.SeqLen+1)+i])
			labels.Data[b*c.SeqLen+i] = float64(tokens[b*(c.SeqLen+1)+i+1])
		}
	}
	scale := &Array{Shape: []int{}, Data: []float64{1 / float64(len(labels.Data))}}
	feeds := map[string]*Array{"ids": ids, "labels": labels, "loss_scale": scale}
	for _, name := range c.model.Names() {
		feeds[name] = floats(t, c.model, name)
	}
	return feeds
}

// gpt2 is the model of Radford et al. 2019 up to the last norm: x [B T, D] and the matrix of the tied head.
func gpt2(g *Graph, m modelConfig, b, t int) (x, head *Value) {
	d := m.Width
	wte := g.Param("wte.weight", m.Vocab, d)
	wpe := g.Param("wpe.weight", m.Positions, d)
	x = g.Add(g.Embedding(wte, g.Input("ids", Type{[]int{b, t}, array.I32})), g.Slice(wpe, 0, 0, t))
	conv := func(x *Value, path string, in, out int) *Value {
		return g.Add(g.MatMul(x, g.Param(path+".weight", in, out), false, false), g.Param(path+".bias", out))
	}
	norm := func(x *Value, path string) *Value {
		return g.LayerNorm(x, g.Param(path+".weight", d), g.Param(path+".bias", d), m.LayerEps)
	}
	for i := range m.Layers {
		h := fmt.Sprintf("h.%d", i)
		end := g.Scope(h)
		a := g.PackedAttention(conv(norm(x, h+".ln_1"), h+".attn.c_attn", d, 3*d), m.Heads, m.Heads, d/m.Heads, true)
		x = g.Add(x, conv(a, h+".attn.c_proj", d, d))
		f := g.Apply("gelu_tanh", conv(norm(x, h+".ln_2"), h+".mlp.c_fc", d, 4*d))
		x = g.Add(x, conv(f, h+".mlp.c_proj", 4*d, d))
		end()
	}
	return g.Reshape(norm(x, "ln_f"), b*t, d), wte
}

// llama is the model of Touvron et al. 2023 up to the last norm: x [B T, D] and the matrix of the head.
func llama(g *Graph, m modelConfig, c golden) (x, head *Value) {
	b, t, d, hd := c.Batch, c.SeqLen, m.Hidden, c.HeadDim
	x = g.Embedding(g.Param("model.embed_tokens.weight", m.Vocab, d), g.Input("ids", Type{[]int{b, t}, array.I32}))
	linear := func(x *Value, path string, in, out int) *Value {
		return g.MatMul(x, g.Param(path+".weight", out, in), false, true)
	}
	norm := func(x *Value, path string) *Value { return g.RMSNorm(x, g.Param(path+".weight", d), m.RMSEps) }
	for i := range m.Blocks {
		h := fmt.Sprintf("model.layers.%d", i)
		end := g.Scope(h)
		n := norm(x, h+".input_layernorm")
		q := g.Rope(linear(n, h+".self_attn.q_proj", d, m.LlamaHeads*hd), hd, m.Theta)
		k := g.Rope(linear(n, h+".self_attn.k_proj", d, m.KVHeads*hd), hd, m.Theta)
		v := linear(n, h+".self_attn.v_proj", d, m.KVHeads*hd)
		a := g.one(Attention{Heads: m.LlamaHeads, KVHeads: m.KVHeads, HeadDim: hd, Causal: true}, q, k, v)
		x = g.Add(x, linear(a, h+".self_attn.o_proj", m.LlamaHeads*hd, d))
		n = norm(x, h+".post_attention_layernorm")
		gate := g.Apply("silu", linear(n, h+".mlp.gate_proj", d, m.Inner))
		x = g.Add(x, linear(g.Mul(gate, linear(n, h+".mlp.up_proj", d, m.Inner)), h+".mlp.down_proj", m.Inner, d))
		end()
	}
	return g.Reshape(norm(x, "model.norm"), b*t, d), g.Param("lm_head.weight", m.Vocab, d)
}

// goldenModel is the graph of a case: its logits [B T, V], and its loss by the fused head or by the logits.
func goldenModel(c golden, m modelConfig, fused bool) (g *Graph, logits, loss *Value) {
	g = New()
	var x, head *Value
	if m.Layers > 0 {
		x, head = gpt2(g, m, c.Batch, c.SeqLen)
	} else {
		x, head = llama(g, m, c)
	}
	labels := g.Input("labels", Type{[]int{c.Batch * c.SeqLen}, array.I32})
	logits = g.MatMul(x, head, false, true)
	if fused {
		loss = g.one(HeadLoss{}, x, head, labels)
	} else {
		loss = g.CrossEntropy(logits, labels)
	}
	return g, logits, g.Mul(loss, g.Input("loss_scale", Type{nil, array.F32}))
}

// within tells the first element that breaks |got - want| <= atol + rtol |want| + atol_rel_max max|want|.
func within(got, want []float64, tol tolerance) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, want %d", len(got), len(want))
	}
	largest := 0.0
	for _, w := range want {
		largest = max(largest, math.Abs(w))
	}
	for i, w := range want {
		if limit := tol.ATol + tol.RTol*math.Abs(w) + tol.ATolRelMax*largest; !(math.Abs(got[i]-w) <= limit) {
			return fmt.Errorf("element %d is %v, want %v within %v", i, got[i], w, limit)
		}
	}
	return nil
}

func TestReferenceModels(t *testing.T) {
	for _, name := range []string{"gpt2_tied", "llama_mha", "llama_gqa"} {
		for _, fused := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s fused=%v", name, fused), func(t *testing.T) {
				c, m := readGolden(t, name)
				g, logits, loss := goldenModel(c, m, fused)
				require.NoError(t, g.Err())
				want := []*Value{logits, loss}
				params, found := []*Value{}, []string{}
				for _, p := range g.Parameters() {
					params = append(params, g.Param(p.Path, p.Shape...))
					found = append(found, p.Path)
				}
				require.ElementsMatch(t, c.model.Names(), found)
				forward := g.FLOPs(loss)
				grads, err := Gradients(g, loss, params)
				require.NoError(t, err)
				got, err := Eval(g, c.feeds(t), append(want, grads...)...)
				require.NoError(t, err)

				assert.NoError(t, within(got[0].Data, floats(t, c.tensors, "expect/0/logits").Data, c.Tolerance["logits"]))
				assert.NoError(t, within(got[1].Data, c.Losses[:1], c.Tolerance["loss"]))
				for i, p := range params {
					path := p.node.Op.(Param).Path
					expected := floats(t, c.tensors, "expect/0/grads/"+path)
					assert.Equal(t, expected.Shape, got[2+i].Shape, path)
					assert.NoError(t, within(got[2+i].Data, expected.Data, c.Tolerance["grads"]), path)
				}
				backward := g.FLOPs(append(grads, loss)...) - forward
				assert.InDelta(t, 2, float64(backward)/float64(forward), 0.1, "the backward pass has two products for each of the forward pass")
			})
		}
	}
}

func TestReferenceComparatorRejectsOneElement(t *testing.T) {
	tol := tolerance{RTol: 1e-5, ATol: 1e-6, ATolRelMax: 1e-5}
	want := []float64{1, 0, -0.1}
	for i := range want {
		got := slices.Clone(want)
		require.NoError(t, within(got, want, tol))
		got[i] += 1e-4
		assert.Error(t, within(got, want, tol))
		got[i] = math.NaN()
		assert.Error(t, within(got, want, tol))
	}
}
