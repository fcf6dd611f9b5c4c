package model

import (
	"encoding/json"
	"fmt"
	"slices"
)

// readLFM2: short convolutions in most layers, names of its own, q and k normed head by head.
func readLFM2(c *ConfigReader) (Definition, error) {
	if c.has("block_ff_dim") {
		c.fields["intermediate_size"], c.added["intermediate_size"] = c.fields["block_ff_dim"], !c.has("intermediate_size")
	}
	m := c.decoder("lfm2", 1e6, 1e-5, c.Flag("tie_embedding", true), false)
	m.intermediate, m.eps = c.lfm2Width(m.intermediate), c.Number("norm_eps", 1e-5, false)
	m.attentionNorms, m.mlpNorms, m.lastNorm = norms{before: "operator_norm"}, norms{before: "ffn_norm"}, "embedding_norm"
	m.attends = attentionNames{"self_attn.out_proj", "self_attn.q_layernorm", "self_attn.k_layernorm"}
	m.headNorms, m.mlp = true, mlpNames{"feed_forward.w1", "feed_forward.w3", "feed_forward.w2"}
	convolution := shortConvolution{taps: c.optionalSize("conv_L_cache", 3), bias: c.Flag("conv_bias", false)}
	if convolution.taps < 2 || convolution.taps > 8 {
		c.wrong("conv_L_cache", "2 to 8")
	}
	var full []int
	if c.has("full_attn_idxs") {
		if err := json.Unmarshal(c.fields["full_attn_idxs"], &full); err != nil {
			c.wrong("full_attn_idxs", "a list of layers")
		}
	}
	c.mixers(&m, convolutionLayer, convolution, func(layer int) bool { return full != nil && !slices.Contains(full, layer) })
	return c.finished(m, "block_dim", "block_norm_eps", "block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init", "block_use_swiglu", "conv_dim",
		"conv_dim_out", "conv_use_xavier_init", "num_heads", "use_pos_enc", "theta", "rms_norm_eps")
}

// lfm2Width is the width of the feed-forward part by LFM2's rule.
func (c *ConfigReader) lfm2Width(width int) int {
	multiplier, whole := 1.0, c.optionalSize("block_multiple_of", 256)
	if raw, there := c.fields["block_ffn_dim_multiplier"]; there && string(raw) != "null" {
		multiplier = c.Number("block_ffn_dim_multiplier", 1, false)
	}
	c.used["block_ffn_dim_multiplier"] = true
	if !c.Flag("block_auto_adjust_ff_dim", true) {
		return width
	}
	adjusted := int(multiplier * float64(2*width/3))
	if adjusted < 1 || adjusted > largest {
		c.wrong("block_ffn_dim_multiplier", fmt.Sprintf("a width of 1 to %d", largest))
		return 1
	}
	return (adjusted + whole - 1) / whole * whole
}
