package model

import "encoding/json"

// Hugging Face's names of the functions that gelu_tanh is written with.
var tanhGELUs = map[string]string{"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu": "gelu_erf"}

func readGPT2(c *configReader) (Definition, error) {
	activation := c.text("activation_function", "gelu_new")
	if tanhGELUs[activation] == "" {
		c.wrong("activation_function", "gelu_new, gelu_pytorch_tanh, gelu_fast or gelu: others are not supported")
	}
	c.mustBe(true, true, "scale_attn_weights")
	c.mustBe(false, false, "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention")
	c.mustBeNull("pruned_heads", "quantization_config")
	config := GPT2Config{
		Layers:           c.size("n_layer", "num_hidden_layers"),
		Heads:            c.size("n_head", "num_attention_heads"),
		Width:            c.size("n_embd", "hidden_size"),
		Vocab:            c.size("vocab_size"),
		Context:          c.size("n_positions", "max_position_embeddings", "n_ctx"),
		Intermediate:     c.optionalSize("n_inner", 0),
		Activation:       tanhGELUs[activation],
		Eps:              c.number("layer_norm_epsilon", 1e-5, false),
		InitStd:          c.number("initializer_range", 0.02, false),
		Untied:           !c.flag("tie_word_embeddings", true),
		EmbeddingDropout: c.number("embd_pdrop", 0.1, true),
		ResidualDropout:  c.number("resid_pdrop", 0.1, true),
		AttentionDropout: c.number("attn_pdrop", 0.1, true),
	}
	if len(c.errs) > 0 {
		return nil, nil
	}
	m, err := newGPT2(config)
	m.passed = c.unused()
	return m, err
}

func (m gpt2) settings() (own map[string]any, passed map[string]json.RawMessage) {
	c := m.c
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
	}, m.passed
}

func readLlama(c *configReader) (Definition, error) {
	if c.text("hidden_act", "silu") != "silu" {
		c.wrong("hidden_act", "silu: others are not supported")
	}
	c.mustBe(false, false, "attention_bias", "mlp_bias")
	c.mustBeNull("rope_scaling", "quantization_config", "sliding_window", "pruned_heads")
	if c.number("partial_rotary_factor", 1, true) != 1 {
		c.wrong("partial_rotary_factor", "1: others are not supported")
	}
	config := LlamaConfig{
		Layers:           c.size("num_hidden_layers"),
		Heads:            c.size("num_attention_heads"),
		KVHeads:          c.optionalSize("num_key_value_heads", 0),
		HeadDim:          c.optionalSize("head_dim", 0),
		Width:            c.size("hidden_size"),
		Intermediate:     c.size("intermediate_size"),
		Vocab:            c.size("vocab_size"),
		Context:          c.size("max_position_embeddings"),
		RopeTheta:        c.ropeTheta(),
		Eps:              c.number("rms_norm_eps", 1e-6, false),
		InitStd:          c.number("initializer_range", 0.02, false),
		Tied:             c.flag("tie_word_embeddings", false),
		AttentionDropout: c.number("attention_dropout", 0, true),
	}
	if len(c.errs) > 0 {
		return nil, nil
	}
	m, err := newLlama(config)
	m.passed = c.unused()
	return m, err
}

// ropeTheta reads rope_theta, or rope_parameters, which newer files have in its place.
func (c *configReader) ropeTheta() float64 {
	theta := c.number("rope_theta", 10000, false)
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
	theta = inner.number("rope_theta", theta, false)
	if len(inner.errs) > 0 {
		c.wrong("rope_parameters", "rope_type default and rope_theta: others are not supported")
	}
	return theta
}

func (m llama) settings() (own map[string]any, passed map[string]json.RawMessage) {
	c := m.c
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
	}, m.passed
}

// readMLP reads this package's own form; Hugging Face has none.
func readMLP(c *configReader) (Definition, error) {
	config := MLPConfig{Activation: c.text("activation", ""), Loss: c.text("loss", "")}
	if err := json.Unmarshal(c.fields["sizes"], &config.Sizes); err != nil {
		c.wrong("sizes", "a list of whole numbers")
		return nil, nil
	}
	return NewMLP(config)
}

func (m mlp) settings() (own map[string]any, passed map[string]json.RawMessage) {
	return map[string]any{"sizes": m.c.Sizes, "activation": m.c.Activation, "loss": m.c.Loss}, nil
}
