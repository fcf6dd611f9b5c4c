package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"

	"gputrain/graph"
)

// LlamaConfig is a Llama (Touvron et al. 2023) as Hugging Face has it: RMS norm before each
// part, rotary positions, grouped-query attention, a SwiGLU feed-forward part, no biases.
// Zero fields marked with a default take it.
type LlamaConfig struct {
	Layers, Heads, Width int
	KVHeads              int // a divisor of Heads; default Heads
	HeadDim              int // even; default Width/Heads
	Intermediate         int // of the feed-forward part; default 8/3*Width rounded up to a multiple of 16
	Vocab, Context       int
	RopeTheta            float64 // default 10000
	Eps                  float64 // of the RMS norms; default 1e-6
	InitStd              float64 // default 0.02
	Tied                 bool    // the head is the embedding; else it is lm_head.weight
	AttentionDropout     float64 // kept for config.json; training with it is refused
}

func init() {
	Register(Family{
		Kind: "llama", Read: readLlama,
		New: func(k Keys) (Definition, error) {
			return NewLlama(LlamaConfig{
				Layers: k.Layers, Heads: k.Heads, KVHeads: k.KVHeads, Width: k.Width, Vocab: k.Vocab, Context: k.Context, Intermediate: k.Intermediate,
				RopeTheta: k.RopeTheta, Tied: k.TieHead,
			})
		},
		Embeddings: []string{"model.embed_tokens.weight"}, Head: "lm_head.weight",
		Constants: regexp.MustCompile(`(^|\.)rotary_emb\.(inv_freq|cos_cached|sin_cached)$`),
	})
}

type llama struct {
	c      LlamaConfig
	passed map[string]json.RawMessage // of an imported config.json
}

// NewLlama fills in the defaults and checks the result.
func NewLlama(c LlamaConfig) (Definition, error) { return newLlama(c) }

func newLlama(c LlamaConfig) (llama, error) {
	c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	if c.HeadDim == 0 {
		if err := cmp.Or(sizes("llama", "heads", c.Heads, "width", c.Width), dividesBy("llama", "width", c.Width, "heads", max(1, c.Heads))); err != nil {
			return llama{}, err
		}
		c.HeadDim = c.Width / c.Heads
	}
	c.Intermediate = cmp.Or(c.Intermediate, (8*c.Width+47)/48*16)
	c.RopeTheta = cmp.Or(c.RopeTheta, 10000)
	c.Eps = cmp.Or(c.Eps, 1e-6)
	c.InitStd = cmp.Or(c.InitStd, 0.02)
	return llama{c: c}, c.validate()
}

func (c LlamaConfig) validate() error {
	return cmp.Or(
		sizes("llama", "layers", c.Layers, "heads", c.Heads, "kv heads", c.KVHeads, "head dim", c.HeadDim, "width", c.Width, "vocab", c.Vocab,
			"context", c.Context, "intermediate", c.Intermediate),
		depth("llama", c.Layers),
		dividesBy("llama", "heads", c.Heads, "kv heads", max(1, c.KVHeads)),
		dividesBy("llama", "head dim", c.HeadDim, "the pairs of rotary positions,", 2),
		positive("llama", "rope theta", c.RopeTheta),
		positive("llama", "rms norm eps", c.Eps),
		positive("llama", "initial deviation", c.InitStd),
		probability("llama", "attention dropout", c.AttentionDropout),
	)
}

func (llama) Kind() string   { return "llama" }
func (m llama) Vocab() int   { return m.c.Vocab }
func (m llama) Context() int { return m.c.Context }

func readLlama(c *ConfigReader) (Definition, error) {
	if c.text("hidden_act", "silu") != "silu" {
		c.wrong("hidden_act", "silu: others are not supported")
	}
	c.mustBe(false, false, "attention_bias", "mlp_bias")
	c.mustBeNull("rope_scaling", "quantization_config", "sliding_window", "pruned_heads")
	if c.Number("partial_rotary_factor", 1, true) != 1 {
		c.wrong("partial_rotary_factor", "1: others are not supported")
	}
	config := LlamaConfig{
		Layers:           c.Size("num_hidden_layers"),
		Heads:            c.Size("num_attention_heads"),
		KVHeads:          c.optionalSize("num_key_value_heads", 0),
		HeadDim:          c.optionalSize("head_dim", 0),
		Width:            c.Size("hidden_size"),
		Intermediate:     c.Size("intermediate_size"),
		Vocab:            c.Size("vocab_size"),
		Context:          c.Size("max_position_embeddings"),
		RopeTheta:        c.ropeTheta(),
		Eps:              c.Number("rms_norm_eps", 1e-6, false),
		InitStd:          c.Number("initializer_range", 0.02, false),
		Tied:             c.Flag("tie_word_embeddings", false),
		AttentionDropout: c.Number("attention_dropout", 0, true),
	}
	if len(c.errs) > 0 {
		return nil, nil
	}
	m, err := newLlama(config)
	m.passed = c.unused()
	return m, err
}

// ropeTheta reads rope_theta, or rope_parameters, which newer files have in its place.
func (c *ConfigReader) ropeTheta() float64 {
	theta := c.Number("rope_theta", 10000, false)
	if !c.has("rope_parameters") {
		return theta
	}
	inner := newConfigReader(nil)
	if err := json.Unmarshal(c.fields["rope_parameters"], &inner.fields); err != nil {
		c.wrong("rope_parameters", "an object")
		return theta
	}
	for key := range inner.fields {
		if key != "rope_type" && key != "rope_theta" {
			inner.wrong(key, "no such key: not supported")
		}
	}
	if inner.text("rope_type", "default") != "default" {
		inner.wrong("rope_type", "default: others are not supported")
	}
	theta = inner.Number("rope_theta", theta, false)
	if len(inner.errs) > 0 {
		c.wrong("rope_parameters", "rope_type default and rope_theta: others are not supported")
	}
	return theta
}

func (m llama) Settings() map[string]any {
	c := m.c
	return over(m.passed, map[string]any{
		"architectures":           []string{"LlamaForCausalLM"},
		"vocab_size":              c.Vocab,
		"hidden_size":             c.Width,
		"intermediate_size":       c.Intermediate,
		"num_hidden_layers":       c.Layers,
		"num_attention_heads":     c.Heads,
		"num_key_value_heads":     c.KVHeads,
		"head_dim":                c.HeadDim,
		"max_position_embeddings": c.Context,
		"rms_norm_eps":            c.Eps,
		"rope_theta":              c.RopeTheta,
		"rope_scaling":            nil,
		"hidden_act":              "silu",
		"attention_bias":          false,
		"mlp_bias":                false,
		"attention_dropout":       c.AttentionDropout,
		"initializer_range":       c.InitStd,
		"tie_word_embeddings":     c.Tied,
	})
}

func (m llama) Params() []Param {
	c := m.c
	params := []Param{{Path: "model.embed_tokens.weight", Shape: []int{c.Vocab, c.Width}, Std: c.InitStd}}
	norm := func(path string) {
		params = append(params, Param{Path: path + ".weight", Shape: []int{c.Width}, Value: 1})
	}
	linear := func(path string, out, in int) {
		params = append(params, Param{Path: path + ".weight", Shape: []int{out, in}, Std: c.InitStd})
	}
	for i := range c.Layers {
		l := fmt.Sprintf("model.layers.%d.", i)
		norm(l + "input_layernorm")
		linear(l+"self_attn.q_proj", c.Heads*c.HeadDim, c.Width)
		linear(l+"self_attn.k_proj", c.KVHeads*c.HeadDim, c.Width)
		linear(l+"self_attn.v_proj", c.KVHeads*c.HeadDim, c.Width)
		linear(l+"self_attn.o_proj", c.Width, c.Heads*c.HeadDim)
		norm(l + "post_attention_layernorm")
		linear(l+"mlp.gate_proj", c.Intermediate, c.Width)
		linear(l+"mlp.up_proj", c.Intermediate, c.Width)
		linear(l+"mlp.down_proj", c.Width, c.Intermediate)
	}
	norm("model.norm")
	if !c.Tied {
		linear("lm_head", c.Vocab, c.Width)
	}
	return sortParams(params)
}

func (m llama) Build(batch, seq int, o Options) (*Built, error) {
	c := m.c
	b, err := NewBuilder(m, batch, seq, o)
	if err != nil {
		return nil, err
	}
	if o.Training && c.AttentionDropout > 0 {
		return nil, errAttentionDropout(m, c.AttentionDropout)
	}
	embedding := b.Read("model.embed_tokens.weight")
	x := b.flat(b.Tokens(embedding), c.Width)
	for i := range c.Layers {
		x = m.block(b, x, fmt.Sprintf("model.layers.%d.", i))
	}
	x = m.norm(b, x, "model.norm")
	if c.Tied {
		return b.Finish(x, embedding)
	}
	return b.Finish(x, b.Read("lm_head.weight"))
}

// block adds attention and the feed-forward part to x [N, width].
func (m llama) block(b *Builder, x *graph.Value, l string) *graph.Value {
	c := m.c
	n := m.norm(b, x, l+"input_layernorm")
	rope := func(path string, heads int) *graph.Value {
		y := b.sequences(b.Linear(n, l+path), heads*c.HeadDim)
		if b.o.Window > 0 {
			return b.RopeAt(y, b.positions(), c.HeadDim, c.RopeTheta, b.o.Window)
		}
		return b.Rope(y, c.HeadDim, c.RopeTheta)
	}
	q, k := rope("self_attn.q_proj.weight", c.Heads), rope("self_attn.k_proj.weight", c.KVHeads)
	v := b.sequences(b.Linear(n, l+"self_attn.v_proj.weight"), c.KVHeads*c.HeadDim)
	a := b.attend(graph.Attention{Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim}, q, k, v)
	x = b.Add(x, b.Linear(b.flat(a, c.Heads*c.HeadDim), l+"self_attn.o_proj.weight"))
	n = m.norm(b, x, l+"post_attention_layernorm")
	gate := b.Apply("silu", b.Linear(n, l+"mlp.gate_proj.weight"))
	up := b.Linear(n, l+"mlp.up_proj.weight")
	return b.Add(x, b.Linear(b.Mul(gate, up), l+"mlp.down_proj.weight"))
}

func (m llama) norm(b *Builder, x *graph.Value, path string) *graph.Value {
	return b.RMSNorm(x, b.Read(path+".weight"), m.c.Eps)
}

// WithDropout takes only 0.
func (m llama) WithDropout(p float64) (Definition, error) {
	if p > 0 {
		return nil, fmt.Errorf("model: llama: dropout: %v, want 0: a Llama has none", p)
	}
	m.c.AttentionDropout = 0
	return m, nil
}
