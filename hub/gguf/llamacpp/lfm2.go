package llamacpp

import (
	"fmt"
	"slices"
)

// lfm2Names are the tensors of a layer of an LFM2.
var lfm2Names = map[string]string{
	"operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down",
	"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_output",
	"self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm",
	"conv.conv": "shortconv.conv", "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
}

func lfm2(c *config) error {
	if has, _ := c.fields["conv_bias"].(bool); has {
		return fmt.Errorf("conv_bias: found true, wanted false: llama.cpp has none in an lfm2")
	}
	return mixed(c, c.convolves)
}

// mixed refuses networks whose layers all have attention, or none: llama.cpp has a cache of each kind, and asks for something in it.
func mixed(c *config, is func(layer int) bool) error {
	layers := c.integer("num_hidden_layers")
	n := 0
	for i := range layers {
		if is(i) {
			n++
		}
	}
	if n == 0 || n == layers {
		return fmt.Errorf("layer_types: found %d of %d layers without attention, wanted some of each kind: llama.cpp cannot load others", n, layers)
	}
	return nil
}

// convolves tells whether a layer of an LFM2 is a convolution.
func (c *config) convolves(layer int) bool {
	if types := c.texts("layer_types"); layer < len(types) {
		return types[layer] == "conv"
	}
	return c.has("full_attn_idxs") && !slices.Contains(c.integers("full_attn_idxs"), layer)
}

// lfm2Width is the width of the feed-forward part by the rule of LFM2.
func (c *config) lfm2Width() int {
	width := c.integer("block_ff_dim", "intermediate_size")
	if adjusts, said := c.fields["block_auto_adjust_ff_dim"].(bool); said && !adjusts {
		return width
	}
	whole := int(c.number("block_multiple_of", 256))
	width = int(c.number("block_ffn_dim_multiplier", 1) * float64(2*width/3))
	return (width + whole - 1) / max(1, whole) * whole
}

func lfm2Keys(c *config) []fact {
	heads := max(1, c.integer("num_attention_heads"))
	kv := int(c.number("num_key_value_heads", float64(heads)))
	var each []int32
	for i := range c.integer("num_hidden_layers") {
		each = append(each, int32(kv))
		if c.convolves(i) {
			each[i] = 0
		}
	}
	return []fact{
		{"shortconv.l_cache", uint32(c.number("conv_L_cache", 3))},
		{keyHeads, each},
		{"feed_forward_length", uint32(c.lfm2Width())},
		{"attention.layer_norm_rms_epsilon", float32(c.number("norm_eps", 1e-5))},
	}
}

const keyHeads = "attention.head_count_kv"

func readLFM2(d *Directory, c map[string]any) {
	c["norm_eps"] = c["rms_norm_eps"]
	delete(c, "rms_norm_eps")
	c["block_auto_adjust_ff_dim"], c["conv_bias"] = false, false
	c["conv_L_cache"], _ = d.stated.integer("shortconv.l_cache")
	var types []string
	for _, n := range d.stated.list(keyHeads) {
		types = append(types, map[bool]string{true: "conv", false: "full_attention"}[n == 0])
	}
	c["layer_types"] = types
}
