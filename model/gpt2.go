package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gputrain/graph"
)

// GPT2Config is a GPT-2 (Radford et al. 2019) as Hugging Face has it: layer norm before
// each part, learned positions, biases everywhere, the head tied to the embedding.
// Zero fields marked with a default take it.
type GPT2Config struct {
	Layers, Heads, Width int
	Vocab, Context       int
	Intermediate         int     // of the feed-forward part; default 4*Width
	Activation           string  // "gelu_tanh" (default, Hugging Face's gelu_new) or "gelu_erf"
	Eps                  float64 // of the layer norms; default 1e-5
	InitStd              float64 // default 0.02
	Untied               bool    // an output head of its own, lm_head.weight
	EmbeddingDropout     float64 // after the embeddings, in training
	ResidualDropout      float64 // after each residual projection, in training
	AttentionDropout     float64 // kept for config.json; training with it is refused
}

type gpt2 struct {
	c      GPT2Config
	passed map[string]json.RawMessage // of an imported config.json
}

// NewGPT2 fills in the defaults and checks the result.
func NewGPT2(c GPT2Config) (Definition, error) { return newGPT2(c) }

func newGPT2(c GPT2Config) (gpt2, error) {
	c.Intermediate = cmp.Or(c.Intermediate, 4*c.Width)
	c.Activation = cmp.Or(c.Activation, "gelu_tanh")
	c.Eps = cmp.Or(c.Eps, 1e-5)
	c.InitStd = cmp.Or(c.InitStd, 0.02)
	return gpt2{c: c}, c.validate()
}

func (c GPT2Config) validate() error {
	if !slices.Contains([]string{"gelu_tanh", "gelu_erf"}, c.Activation) {
		return fmt.Errorf("model: gpt2: activation: %q, want gelu_tanh or gelu_erf", c.Activation)
	}
	return cmp.Or(
		sizes("gpt2", "layers", c.Layers, "heads", c.Heads, "width", c.Width, "vocab", c.Vocab, "context", c.Context, "intermediate", c.Intermediate),
		depth("gpt2", c.Layers),
		dividesBy("gpt2", "width", c.Width, "heads", max(1, c.Heads)),
		positive("gpt2", "layer norm eps", c.Eps),
		positive("gpt2", "initial deviation", c.InitStd),
		probability("gpt2", "embedding dropout", c.EmbeddingDropout),
		probability("gpt2", "residual dropout", c.ResidualDropout),
		probability("gpt2", "attention dropout", c.AttentionDropout),
	)
}

func (gpt2) Kind() string   { return "gpt2" }
func (m gpt2) Vocab() int   { return m.c.Vocab }
func (m gpt2) Context() int { return m.c.Context }

func (m gpt2) Params() []Param {
	c := m.c
	residual := c.InitStd / math.Sqrt(2*float64(c.Layers))
	params := []Param{
		{Path: "wte.weight", Shape: []int{c.Vocab, c.Width}, Std: c.InitStd},
		{Path: "wpe.weight", Shape: []int{c.Context, c.Width}, Std: c.InitStd},
	}
	norm := func(path string) {
		params = append(params, Param{Path: path + ".weight", Shape: []int{c.Width}, Value: 1}, Param{Path: path + ".bias", Shape: []int{c.Width}})
	}
	conv := func(path string, in, out int, std float64) {
		params = append(params, Param{Path: path + ".weight", Shape: []int{in, out}, Std: std}, Param{Path: path + ".bias", Shape: []int{out}})
	}
	for i := range c.Layers {
		h := fmt.Sprintf("h.%d.", i)
		norm(h + "ln_1")
		conv(h+"attn.c_attn", c.Width, 3*c.Width, c.InitStd)
		conv(h+"attn.c_proj", c.Width, c.Width, residual)
		norm(h + "ln_2")
		conv(h+"mlp.c_fc", c.Width, c.Intermediate, c.InitStd)
		conv(h+"mlp.c_proj", c.Intermediate, c.Width, residual)
	}
	norm("ln_f")
	if c.Untied {
		params = append(params, Param{Path: "lm_head.weight", Shape: []int{c.Vocab, c.Width}, Std: c.InitStd})
	}
	return sortParams(params)
}

func (m gpt2) Build(batch, seq int, o Options) (*Built, error) {
	c := m.c
	b, err := newBuilder(m, batch, seq, o)
	if err != nil {
		return nil, err
	}
	if o.Training && c.AttentionDropout > 0 {
		return nil, errAttentionDropout(m, c.AttentionDropout)
	}
	tokens, places := b.tokens(b.param("wte.weight")), b.param("wpe.weight")
	if o.Window > 0 {
		places = b.Embedding(places, b.positions())
	} else {
		places = b.Slice(places, 0, 0, seq)
	}
	x := b.Add(tokens, places)
	x = b.dropout(b.flat(x, c.Width), c.EmbeddingDropout)
	for i := range c.Layers {
		x = m.block(b, x, fmt.Sprintf("h.%d.", i))
	}
	x = m.norm(b, x, "ln_f")
	head := "wte.weight"
	if c.Untied {
		head = "lm_head.weight"
	}
	return b.finish(x, b.param(head))
}

// block adds attention and the feed-forward part to x [N, width].
func (m gpt2) block(b *builder, x *graph.Value, h string) *graph.Value {
	c := m.c
	qkv := b.conv1d(m.norm(b, x, h+"ln_1"), h+"attn.c_attn")
	a := b.attend(graph.Attention{Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.Width / c.Heads, Packed: true}, b.sequences(qkv, 3*c.Width))
	a = b.conv1d(b.flat(a, c.Width), h+"attn.c_proj")
	x = b.Add(x, b.dropout(a, c.ResidualDropout))
	f := b.Apply(c.Activation, b.conv1d(m.norm(b, x, h+"ln_2"), h+"mlp.c_fc"))
	return b.Add(x, b.dropout(b.conv1d(f, h+"mlp.c_proj"), c.ResidualDropout))
}

func (m gpt2) norm(b *builder, x *graph.Value, path string) *graph.Value {
	return b.LayerNorm(x, b.param(path+".weight"), b.param(path+".bias"), m.c.Eps)
}

func (m gpt2) withDropout(p float64) (Definition, error) {
	m.c.EmbeddingDropout, m.c.ResidualDropout, m.c.AttentionDropout = p, p, 0
	return m, nil
}

func errAttentionDropout(def Definition, p float64) error {
	return fmt.Errorf("model: %s: build: dropout %v inside attention: not supported in training: choose a dropout for this run (WithDropout), 0 or more", def.Kind(), p)
}
