package model

import "fmt"

// readQwen35: the gated delta rule in three of four layers, and attention with a gate, whose heads are turned in part.
func readQwen35(c *ConfigReader) (Definition, error) {
	m := c.qwen35("qwen3_5_text")
	if c.has("mlp_only_layers") && string(c.fields["mlp_only_layers"]) != "[]" {
		c.wrong("mlp_only_layers", "none: it has no experts")
	}
	return c.finished(m, qwen35Idle...)
}

// qwen35Idle are keys that change nothing.
var qwen35Idle = []string{"mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "output_gate_type"}

// readQwen35MoE: Qwen3.5 with experts in every layer, and one beside them that all tokens take, times a gate of its own.
func readQwen35MoE(c *ConfigReader) (Definition, error) {
	if width, there := c.fields["moe_intermediate_size"]; there {
		c.absent("intermediate_size", string(width)) // of no layer
	}
	m := c.qwen35("qwen3_5_moe_text")
	e := c.experts(0.001, "num_experts", "num_local_experts")
	e.router, e.pieces, e.stacked = "mlp.gate", true, true
	e.width, e.shared = c.Size("moe_intermediate_size"), c.Size("shared_expert_intermediate_size")
	c.mustBe(true, true, "norm_topk_prob")
	if c.has("mlp_only_layers") && string(c.fields["mlp_only_layers"]) != "[]" {
		c.wrong("mlp_only_layers", "none: all layers have experts")
	}
	if c.optionalSize("decoder_sparse_step", 1) != 1 {
		c.wrong("decoder_sparse_step", "1: all layers have experts")
	}
	for i := range m.layers {
		m.layers[i].experts = e
	}
	return c.finished(m, qwen35Idle...)
}

// qwen35 is what networks with experts and without have in common.
func (c *ConfigReader) qwen35(kind string) decoder {
	c.absent("head_dim", "256")
	c.ropeMore = []string{"mrope_section", "mrope_interleaved"} // text has equal positions in all sections
	c.absent("partial_rotary_factor", "0.25")
	m := c.decoder(kind, 1e7, 1e-6, false, true)
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
	return m
}
