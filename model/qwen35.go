package model

import "fmt"

// readQwen35: the gated delta rule in three of four layers, and attention with a gate, whose heads are turned in part.
func readQwen35(c *ConfigReader) (Definition, error) {
	c.absent("head_dim", "256")
	c.ropeMore = []string{"mrope_section", "mrope_interleaved"} // text has equal positions in all sections
	c.absent("partial_rotary_factor", "0.25")
	m := c.decoder("qwen3_5_text", 1e7, 1e-6, false, true)
	m.onePlus, m.headNorms, m.gated, m.activation = true, true, true, c.act("hidden_act", "silu")
	m.qkvBias = c.Flag("attention_bias", false)
	m.oBias = m.qkvBias
	c.mustBe(true, true, "attn_output_gate")
	delta := gatedDelta{
		heads: c.optionalSize("linear_num_value_heads", 32), keyHeads: c.optionalSize("linear_num_key_heads", 16),
		keyDim: c.optionalSize("linear_key_head_dim", 128), valueDim: c.optionalSize("linear_value_head_dim", 128), taps: c.optionalSize("linear_conv_kernel_dim", 4),
	}
	switch {
	case delta.heads%delta.keyHeads != 0:
		c.wrong("linear_num_value_heads", fmt.Sprintf("a multiple of linear_num_key_heads, %d", delta.keyHeads))
	case delta.keyDim > 256 || delta.valueDim > 256:
		c.wrong("linear_key_head_dim", "heads of at most 256")
	case delta.taps < 2 || delta.taps > 8:
		c.wrong("linear_conv_kernel_dim", "2 to 8")
	}
	interval := c.optionalSize("full_attention_interval", 4)
	c.mixers(&m, linearAttention, delta, func(layer int) bool { return (layer+1)%interval != 0 })
	if c.has("mlp_only_layers") && string(c.fields["mlp_only_layers"]) != "[]" {
		c.wrong("mlp_only_layers", "none: mixtures of experts are not supported")
	}
	return c.finished(m, "mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "output_gate_type")
}
