package llamacpp

import (
	"encoding/json"
	"fmt"
	"slices"

	"gputrain/hub/gguf"
)

// config is a config.json.
type config struct{ fields map[string]any }

func parseConfig(raw []byte) (*config, error) {
	c := &config{}
	if err := json.Unmarshal(raw, &c.fields); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	return c, nil
}

func (c *config) has(key string) bool { _, ok := c.fields[key]; return ok }

func (c *config) text(key string) string { s, _ := c.fields[key].(string); return s }

func (c *config) number(key string, absent float64) float64 {
	if v, ok := c.fields[key].(float64); ok {
		return v
	}
	return absent
}

// integer is a number, 0 where there is none.
func (c *config) integer(keys ...string) int {
	for _, key := range keys {
		if v, ok := c.fields[key].(float64); ok {
			return int(v)
		}
	}
	return 0
}

func (c *config) context() int { return c.integer("max_position_embeddings", "n_positions", "n_ctx") }

func list[T, U any](v any, of func(T) U) (out []U) {
	items, _ := v.([]any)
	for _, item := range items {
		if t, ok := item.(T); ok {
			out = append(out, of(t))
		}
	}
	return out
}

func (c *config) texts(key string) []string {
	return list(c.fields[key], func(s string) string { return s })
}

func (c *config) integers(key string) []int {
	return list(c.fields[key], func(v float64) int { return int(v) })
}

// Check says of a config.json what llama.cpp cannot load, or computes otherwise.
func Check(raw []byte) error {
	c, err := parseConfig(raw)
	if err == nil {
		_, _, _, err = c.network()
	}
	if err != nil {
		return fmt.Errorf("llamacpp: check: %w", err)
	}
	return nil
}

// network are the family, and the keys and tensors that say what is computed.
func (c *config) network() (f family, keys []gguf.Key, factors []gguf.Tensor, err error) {
	if f, err = familyOf(c); err != nil {
		return f, nil, nil, err
	}
	rotation, factors, err := c.rotation(f)
	if err != nil {
		return f, nil, nil, err
	}
	windows, err := c.windows(f)
	keys = slices.Concat(c.sizes(f), rotation, windows)
	if f.keys != nil {
		var own []gguf.Key
		for _, k := range f.keys(c) {
			own = append(own, f.key(k.name, k.value))
		}
		keys = with(keys, own)
	}
	return f, keys, factors, err
}

// headDim is the width of a head.
func (c *config) headDim() int {
	if d := c.integer("head_dim"); d > 0 {
		return d
	}
	switch c.text("model_type") {
	case "qwen3":
		return 128
	case "gpt_oss":
		return 64
	case "gemma2", "gemma3_text", "gemma4_text", "qwen3_5_text", "qwen3_5_moe_text":
		return 256
	}
	return c.integer("hidden_size", "n_embd") / max(1, c.integer("num_attention_heads", "n_head"))
}

// sizes are the keys that say how large a model is.
func (c *config) sizes(f family) []gguf.Key {
	heads, width := c.integer("num_attention_heads", "n_head"), c.integer("hidden_size", "n_embd")
	kv := c.integer("num_key_value_heads")
	if kv == 0 {
		kv = heads
		if f.plusOne {
			kv = 4
		}
	}
	inner := c.integer("shared_intermediate_size", "intermediate_size", "n_inner", "moe_intermediate_size")
	if inner == 0 {
		inner = 4 * width
	}
	count := func(name string, n int) gguf.Key { return f.key(name, uint32(n)) }
	real := func(name string, v float64) gguf.Key { return f.key(name, float32(v)) }
	keys := []gguf.Key{
		count("vocab_size", c.integer("vocab_size")), count("context_length", c.reach()), count("embedding_length", width),
		count("block_count", c.integer("num_hidden_layers", "n_layer")), count("feed_forward_length", inner),
		count("attention.head_count", heads), count("attention.head_count_kv", kv),
	}
	if f.arch == "gpt2" {
		return append(keys, real("attention.layer_norm_epsilon", c.number("layer_norm_epsilon", 1e-5)))
	}
	eps := 1e-6
	if slices.Contains([]string{"olmo2", "phi3", "mistral3", "gpt-oss"}, f.arch) {
		eps = 1e-5
	}
	return append(keys, real("attention.layer_norm_rms_epsilon", c.number("rms_norm_eps", eps)),
		count("attention.key_length", c.headDim()), count("attention.value_length", c.headDim()), count("rope.dimension_count", int(float64(c.headDim())*c.share())))
}

// window is how many keys a layer with a window sees, as Hugging Face has it; 0: no layer has one.
func (c *config) window() int {
	if !c.has("sliding_window") && c.text("model_type") == "gemma4_text" {
		return 512
	}
	if !c.has("sliding_window") && slices.Contains([]string{"mistral", "gemma2", "gemma3_text", "olmo3"}, c.text("model_type")) {
		return 4096
	}
	if !c.has("sliding_window") && c.text("model_type") == "gpt_oss" {
		return 128
	}
	return c.integer("sliding_window")
}

// slides tells whether a layer sees a window alone, as Hugging Face has it.
func (c *config) slides(layer int) bool {
	if c.window() == 0 {
		return false
	}
	if types := c.texts("layer_types"); layer < len(types) {
		return types[layer] == "sliding_attention"
	}
	uses, _ := c.fields["use_sliding_window"].(bool)
	switch c.text("model_type") {
	case "mistral", "ministral3", "phi3":
		return true
	case "qwen2", "qwen3":
		return uses && layer >= int(c.number("max_window_layers", 28))
	case "smollm3":
		return uses && !c.rotates(layer)
	case "olmo3":
		return (layer+1)%4 != 0
	case "qwen3_moe":
		return uses
	case "gemma2", "gpt_oss":
		return layer%2 == 0
	case "gemma4_text":
		return (layer+1)%6 != 0 && layer != c.integer("num_hidden_layers")-1
	case "gemma3_text":
		pattern := c.number("sliding_window_pattern", c.number("_sliding_window_pattern", 6))
		return (layer+1)%max(1, int(pattern)) != 0
	}
	return false
}

// sameWindows refuses windows in other layers than llama.cpp has them: it knows them by the architecture. A window of the whole context is none, except in
// a Gemma, whose layers it tells apart.
func (c *config) sameWindows(f family) error {
	window := c.window()
	for i := range c.integer("num_hidden_layers", "n_layer") {
		switch found, wanted := c.slides(i), f.full > 0 && (i+1)%f.full != 0; {
		case found == wanted || f.listed:
		case f.full > 0:
			return fmt.Errorf("layer %d: found a window: %v, wanted %v: llama.cpp has full attention in every layer whose number, from 1, is a multiple of %d", i, found, wanted, f.full)
		case window < c.context():
			return fmt.Errorf("sliding_window: found %d in layer %d, below the context of %d, wanted none: llama.cpp computes %s without windows", window, i, c.context(), c.text("model_type"))
		}
	}
	return nil
}

// windows are the keys of Gemma's windows and caps.
func (c *config) windows(f family) (keys []gguf.Key, err error) {
	if !f.plusOne {
		return nil, nil
	}
	keys = append(keys, f.key("attention.sliding_window", uint32(c.window())))
	if f.arch == "gemma3" {
		theta, err := c.local()
		return append(keys, f.key("rope.freq_base_swa", float32(theta))), err
	}
	return append(keys, f.key("attn_logit_softcapping", float32(c.number("attn_logit_softcapping", 50))),
		f.key("final_logit_softcapping", float32(c.number("final_logit_softcapping", 30)))), nil
}
