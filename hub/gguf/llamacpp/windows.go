package llamacpp

import (
	"fmt"
	"slices"

	"gputrain/hub/gguf"
)

// window is how many keys a layer with a window sees, as Hugging Face has it; 0: no layer has one.
func (c *config) window() int {
	if !c.has("sliding_window") && slices.Contains([]string{"mistral", "gemma2", "gemma3_text"}, c.text("model_type")) {
		return 4096
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
	case "mistral", "phi3":
		return true
	case "qwen2", "qwen3":
		return uses && layer >= int(c.number("max_window_layers", 28))
	case "smollm3":
		return uses && !c.rotates(layer)
	case "gemma2":
		return layer%2 == 0
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
		case found == wanted:
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
	keys = append(keys, gguf.Key{Name: f.arch + ".attention.sliding_window", Value: uint32(c.window())})
	if f.arch == "gemma3" {
		theta, err := c.local()
		return append(keys, gguf.Key{Name: "gemma3.rope.freq_base_swa", Value: float32(theta)}), err
	}
	return append(keys, gguf.Key{Name: "gemma2.attn_logit_softcapping", Value: float32(c.number("attn_logit_softcapping", 50))},
		gguf.Key{Name: "gemma2.final_logit_softcapping", Value: float32(c.number("final_logit_softcapping", 30))}), nil
}
