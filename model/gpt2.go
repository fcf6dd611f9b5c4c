package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
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

func init() {
	Register(Family{
		Kind: "gpt2", Read: readGPT2,
		New: func(k Keys) (Definition, error) {
			if k.HeadDim+k.Window > 0 {
				return nil, fmt.Errorf("model: gpt2: head_dim %d, window %d: want 0: it has none of its own", k.HeadDim, k.Window)
			}
			return NewGPT2(GPT2Config{Layers: k.Layers, Heads: k.Heads, Width: k.Width, Vocab: k.Vocab, Context: k.Context, Intermediate: k.Intermediate})
		},
		Embeddings: []string{"wte.weight", "wpe.weight"}, Positions: "wpe.weight", Head: "lm_head.weight", Class: "GPT2", Prefix: "transformer.", // on the hub there is none
		usual:     proportions{HeadWidth: 64, AttentionShare: 1, Group: 1, Intermediate: 4, Aspect: 64, Tied: true},
		Constants: regexp.MustCompile(`^(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)$`), // causal masks
	})
}

type gpt2 struct {
	c    GPT2Config
	file map[string]json.RawMessage // an imported config.json; nil for none
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

// Hugging Face's names of the functions that gelu_tanh is written with.
var tanhGELUs = map[string]string{"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu": "gelu_erf"}

func readGPT2(c *ConfigReader) (Definition, error) {
	activation := c.text("activation_function", "gelu_new")
	if tanhGELUs[activation] == "" {
		c.wrong("activation_function", "gelu_new, gelu_pytorch_tanh, gelu_fast or gelu: others are not supported")
	}
	c.mustBe(true, true, "scale_attn_weights")
	c.mustBe(false, false, "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention")
	c.mustBeNull("pruned_heads")
	config := GPT2Config{
		Layers:           c.Size("n_layer", "num_hidden_layers"),
		Heads:            c.Size("n_head", "num_attention_heads"),
		Width:            c.Size("n_embd", "hidden_size"),
		Vocab:            c.Size("vocab_size"),
		Context:          c.Size("n_positions", "max_position_embeddings", "n_ctx"),
		Intermediate:     c.optionalSize("n_inner", 0),
		Activation:       tanhGELUs[activation],
		Eps:              c.Number("layer_norm_epsilon", 1e-5, false),
		InitStd:          c.Number("initializer_range", 0.02, false),
		Untied:           !c.Flag("tie_word_embeddings", true),
		EmbeddingDropout: c.Number("embd_pdrop", 0.1, true),
		ResidualDropout:  c.Number("resid_pdrop", 0.1, true),
		AttentionDropout: c.Number("attn_pdrop", 0.1, true),
	}
	c.used[quantizationKey], c.used[poolingKey], c.used["n_ctx"] = true, true, true
	c.refuseUnknown("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout", "summary_hidden_size",
		"afn", "n_special", "num_labels", "output_past", "predict_special_tokens", "use_cache", "xla_device")
	if len(c.errs) > 0 {
		return nil, nil
	}
	m, err := newGPT2(config)
	m.file = maps.Clone(c.fields)
	delete(m.file, quantizationKey)
	return m, err
}

func (m gpt2) Settings() map[string]any {
	c := m.c
	if m.file != nil {
		return m.fileSettings()
	}
	inner := any(nil)
	if c.Intermediate != 4*c.Width {
		inner = c.Intermediate
	}
	return map[string]any{
		"architectures":       []string{"GPT2LMHeadModel"},
		"vocab_size":          c.Vocab,
		"n_positions":         c.Context,
		"n_ctx":               c.Context,
		"n_embd":              c.Width,
		"n_layer":             c.Layers,
		"n_head":              c.Heads,
		"n_inner":             inner,
		"activation_function": map[string]string{"gelu_tanh": "gelu_new", "gelu_erf": "gelu"}[c.Activation],
		"layer_norm_epsilon":  c.Eps,
		"initializer_range":   c.InitStd,
		"attn_pdrop":          c.AttentionDropout,
		"embd_pdrop":          c.EmbeddingDropout,
		"resid_pdrop":         c.ResidualDropout,
		"scale_attn_weights":  true,
		"tie_word_embeddings": !c.Untied,
	}
}

// fileSettings are the keys of the file, with the dropout that the network now has.
func (m gpt2) fileSettings() map[string]any {
	settings := map[string]any{}
	for key, value := range m.file {
		settings[key] = value
	}
	in := newConfigReader(m.file)
	for key, p := range map[string]float64{"attn_pdrop": m.c.AttentionDropout, "embd_pdrop": m.c.EmbeddingDropout, "resid_pdrop": m.c.ResidualDropout} {
		if in.Number(key, 0.1, true) != p {
			settings[key] = p
		}
	}
	return settings
}

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
		params = append(params, Param{Path: path + ".weight", Shape: []int{in, out}, Std: std, InOut: true}, Param{Path: path + ".bias", Shape: []int{out}})
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
	b, err := NewBuilder(m, batch, seq, o)
	if err != nil {
		return nil, err
	}
	if o.Training && c.AttentionDropout > 0 {
		return nil, errAttentionDropout(m, c.AttentionDropout)
	}
	tokens, places := b.Tokens(b.Read("wte.weight")), b.Read("wpe.weight")
	if o.Window > 0 || o.Documents {
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
	return b.Finish(x, b.Read(head))
}

// block adds attention and the feed-forward part to x [N, width].
func (m gpt2) block(b *Builder, x *graph.Value, h string) *graph.Value {
	c := m.c
	qkv := b.conv1d(m.norm(b, x, h+"ln_1"), h+"attn.c_attn")
	a := b.attend(graph.Attention{Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.Width / c.Heads, Packed: true}, b.sequences(qkv, 3*c.Width))
	a = b.conv1d(b.flat(a, c.Width), h+"attn.c_proj")
	x = b.Add(x, b.dropout(a, c.ResidualDropout))
	f := b.Apply(c.Activation, b.conv1d(m.norm(b, x, h+"ln_2"), h+"mlp.c_fc"))
	return b.Add(x, b.dropout(b.conv1d(f, h+"mlp.c_proj"), c.ResidualDropout))
}

func (m gpt2) norm(b *Builder, x *graph.Value, path string) *graph.Value {
	return b.LayerNorm(x, b.Read(path+".weight"), b.Read(path+".bias"), m.c.Eps)
}

// WithDropout is after the embeddings and after each residual projection.
func (m gpt2) WithDropout(p float64) (Definition, error) {
	m.c.EmbeddingDropout, m.c.ResidualDropout, m.c.AttentionDropout = p, p, 0
	return m, nil
}

func errAttentionDropout(def Definition, p float64) error {
	return fmt.Errorf("model: %s: build: dropout %v inside attention: not supported in training: choose a dropout for this run (WithDropout), 0 or more", def.Kind(), p)
}
