package model

import "cmp"

// LlamaConfig is a Llama (Touvron et al. 2023) as Hugging Face has it: RMS norm before each
// part, rotary positions, grouped-query attention, a SwiGLU feed-forward part, no biases. What later ones have besides is read from files.
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
			if k.Window > 0 {
				return nil, errWindow("llama", k.Window)
			}
			return NewLlama(LlamaConfig{
				Layers: k.Layers, Heads: k.Heads, KVHeads: k.KVHeads, HeadDim: k.HeadDim, Width: k.Width, Vocab: k.Vocab, Context: k.Context, Intermediate: k.Intermediate,
				RopeTheta: k.RopeTheta, Tied: k.TieHead,
			})
		},
		Embeddings: []string{"model.embed_tokens.weight"}, Head: "lm_head.weight", Class: "Llama", Root: "model.",
		Constants: rotaryConstants,
		usual:     proportions{HeadWidth: 64, AttentionShare: 1, Group: 4, Intermediate: 8.0 / 3, Aspect: 64, RopeTheta: 500000},
	})
}

// NewLlama fills in the defaults and checks the result.
func NewLlama(c LlamaConfig) (Definition, error) {
	c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	if c.HeadDim == 0 {
		if err := cmp.Or(sizes("llama", "heads", c.Heads, "width", c.Width), dividesBy("llama", "width", c.Width, "heads", max(1, c.Heads))); err != nil {
			return nil, err
		}
		c.HeadDim = c.Width / c.Heads
	}
	c.Intermediate = cmp.Or(c.Intermediate, gated(c.Width))
	c.RopeTheta = cmp.Or(c.RopeTheta, 10000)
	c.Eps = cmp.Or(c.Eps, 1e-6)
	c.InitStd = cmp.Or(c.InitStd, 0.02)
	m := decoder{
		kind: "llama", lastNorm: "norm", attends: llamaAttention, layerSizes: layerSizes{c.Heads, c.KVHeads, c.HeadDim, c.Intermediate}, width: c.Width, vocab: c.Vocab,
		context: c.Context, eps: c.Eps, initStd: c.InitStd, tied: c.Tied, attentionNorms: llamaNorms[0], mlpNorms: llamaNorms[1], mlp: llamaMLP, activation: "silu",
		dropout: c.AttentionDropout, settings: c.settings(),
	}
	err := cmp.Or(
		sizes("llama", "layers", c.Layers), depth("llama", c.Layers),
		dividesBy("llama", "head dim", c.HeadDim, "the pairs of rotary positions,", 2),
		positive("llama", "rope theta", c.RopeTheta),
		probability("llama", "attention dropout", c.AttentionDropout),
	)
	if err != nil {
		return nil, err
	}
	for range c.Layers {
		m.layers = append(m.layers, decoderLayer{rotation: &rotation{theta: c.RopeTheta, width: c.HeadDim, rule: "default", amplify: 1}})
	}
	return m, m.validate()
}

// readLlama: scaled rotary positions, and biases of all projections.
func readLlama(c *ConfigReader) (Definition, error) {
	m := c.decoder("llama", 10000, 1e-6, false, false)
	m.activation = c.act("hidden_act", "silu")
	m.qkvBias, m.mlpBias = c.Flag("attention_bias", false), c.Flag("mlp_bias", false)
	m.oBias = m.qkvBias
	c.mustBeNull("sliding_window")
	return c.finished(m)
}

// settings are the content of config.json.
func (c LlamaConfig) settings() map[string]any {
	return map[string]any{
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
	}
}
