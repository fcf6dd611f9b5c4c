package llamacpp

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/hub/gguf"
)

// gemma4Layers are the layers of a Gemma 4: how many there are, from which on they read the keys and values of earlier ones, and the width of heads in those
// without a window.
func (c *config) gemma4Layers() (layers, own, wide int) {
	layers, wide = c.integer("num_hidden_layers"), 512
	if d := c.integer("global_head_dim"); d > 0 {
		wide = d
	}
	return layers, layers - c.integer("num_kv_shared_layers"), wide
}

// gemma4 refuses a Gemma 4 that llama.cpp computes otherwise.
func gemma4(c *config) error {
	layers, own, _ := c.gemma4Layers()
	if own < layers && (own < 2 || c.slides(own-1) || !c.slides(own-2)) {
		return fmt.Errorf("num_kv_shared_layers: found %d, wanted the last layer with keys of its own without a window and the one before it with one: llama.cpp reads the keys and values of these two", layers-own)
	}
	if rule := c.rule(); rule != "proportional" && c.share() != 1 {
		return fmt.Errorf("rope_parameters: full_attention: partial_rotary_factor: found %g without proportional, wanted it with that: llama.cpp has no other", c.share())
	}
	slides := 0
	for i := range layers {
		if c.slides(i) {
			slides++
		}
	}
	if slides == 0 || c.slides(layers-1) {
		return fmt.Errorf("layer_types: found %d layers with a window, wanted some, but not the last layer: llama.cpp has no other gemma4", slides)
	}
	if tied, said := c.fields["tie_word_embeddings"].(bool); said && !tied {
		return fmt.Errorf("tie_word_embeddings: found false, wanted true: llama.cpp ties them")
	}
	return nil
}

// still is what the frequencies of pairs that do not turn are divided by.
const still = 1e30

// proportional are the factors of a rotation of so many of a head's pairs.
func proportional(head int, share float64) []float32 {
	factors := slices.Repeat([]float32{still}, head/2)
	for i := range int(float64(head)*share) / 2 {
		factors[i] = 1
	}
	return factors
}

func gemma4Keys(c *config) []fact {
	layers, own, wide := c.gemma4Layers()
	narrow, inner := c.headDim(), c.integer("intermediate_size")
	kv := max(1, c.integer("num_key_value_heads"))
	same, _ := c.fields["attention_k_eq_v"].(bool)
	double, _ := c.fields["use_double_wide_mlp"].(bool)
	var slides []bool
	var heads, widths []int32
	for i := range layers {
		h, w := kv, inner
		if global := c.integer("num_global_key_value_heads"); same && global > 0 && !c.slides(i) {
			h = global
		}
		if double && i >= own {
			w *= 2
		}
		slides, heads, widths = append(slides, c.slides(i)), append(heads, int32(h)), append(widths, int32(w))
	}
	theta, _ := c.local()
	facts := []fact{
		{"attention.shared_kv_layers", uint32(layers - own)},
		{"embedding_length_per_layer_input", uint32(c.number("hidden_size_per_layer_input", 256))},
		{slidingWindow, uint32(c.window())},
		{"attention.sliding_window_pattern", slides},
		{"attention.head_count_kv", heads},
		{"attention.key_length", uint32(wide)},
		{"attention.value_length", uint32(wide)},
		{"attention.key_length_swa", uint32(narrow)},
		{"attention.value_length_swa", uint32(narrow)},
		{"rope.dimension_count", uint32(wide)},
		{"rope.dimension_count_swa", uint32(narrow)},
		{"rope.freq_base_swa", float32(theta)},
		{"final_logit_softcapping", float32(c.number("final_logit_softcapping", 0))},
	}
	if double {
		facts = append(facts, fact{"feed_forward_length", widths})
	}
	return facts
}

// readGemma4 are the keys whose values differ by layer.
func readGemma4(d *Directory, c map[string]any) {
	d.layerTypes(c)
	types, _ := c["layer_types"].([]string)
	window, _ := d.stated.integer(slidingWindow)
	shared, _ := d.stated.integer("attention.shared_kv_layers")
	wide := c["head_dim"]
	narrow, ok := d.stated.integer("attention.key_length_swa")
	if !ok {
		narrow = wide.(int)
	}
	per, _ := d.stated.integer("embedding_length_per_layer_input")
	delete(c, "partial_rotary_factor")
	delete(c, "rope_theta")
	delete(c, "rope_scaling")
	turned := 0
	factors, _ := d.factors(ropeFactors) // which rotation has read
	for turned < len(factors) && factors[turned] == 1 {
		turned++
	}
	if factors == nil {
		turned = wide.(int) / 2
	}
	full := map[string]any{"rope_type": "proportional", "partial_rotary_factor": 2 * float64(turned) / float64(wide.(int)), "rope_theta": d.stated.or("rope.freq_base", 1e6)}
	if 2*turned == wide {
		full["rope_type"] = "default"
	}
	c["rope_parameters"] = map[string]any{
		"full_attention":    full,
		"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": d.stated.or("rope.freq_base_swa", 10000)},
	}
	c["global_head_dim"], c["head_dim"], c["sliding_window"] = wide, narrow, window
	c["num_kv_shared_layers"], c["hidden_size_per_layer_input"], c["vocab_size_per_layer_input"] = shared, per, c["vocab_size"]
	c["hidden_activation"] = "gelu_pytorch_tanh"
	if limit := d.stated.or("final_logit_softcapping", 0); limit > 0 {
		c["final_logit_softcapping"] = limit
	}
	if widths := d.stated.list("feed_forward_length"); len(widths) > 0 {
		c["use_double_wide_mlp"] = slices.Max(widths) > widths[0]
	}
	heads := d.stated.list("attention.head_count_kv")
	for i := range types {
		if types[i] == "full_attention" && i < len(types)-shared {
			if _, own := d.file.Info(fmt.Sprintf("blk.%d.attn_v.weight", i)); !own {
				c["attention_k_eq_v"] = true
				if i < len(heads) {
					c["num_global_key_value_heads"] = heads[i]
				}
			}
		} else if i < len(heads) {
			c["num_key_value_heads"] = heads[i]
		}
	}
}

// list are whole numbers that a file has for each layer; nil: it has none, or one for all.
func (f facts) list(key string) (out []int) {
	v, _ := f.file.Value(f.prefix + key)
	switch v := v.(type) {
	case []int32:
		for _, n := range v {
			out = append(out, int(n))
		}
	case []uint32:
		for _, n := range v {
			out = append(out, int(min(n, math.MaxInt32)))
		}
	}
	return out
}

// layerNumber is what stands for a layer's number that is no matrix's or norm's, with an ending as others have it.
const layerNumber = ".layer_scalar"

// ended gives such a tensor that ending; unended takes it.
func ended(name string) string {
	if strings.HasSuffix(name, layerNumber) {
		return name + ".weight"
	}
	return name
}

func unended(name string) string {
	if whole, is := strings.CutSuffix(name, ".weight"); is && strings.HasSuffix(whole, layerNumber) {
		return whole
	}
	return name
}

// with are keys with those of a family in place of its own.
func with(keys []gguf.Key, own []gguf.Key) []gguf.Key {
	for _, key := range own {
		if i := slices.IndexFunc(keys, func(k gguf.Key) bool { return k.Name == key.Name }); i >= 0 {
			keys[i] = key
		} else {
			keys = append(keys, key)
		}
	}
	return keys
}
