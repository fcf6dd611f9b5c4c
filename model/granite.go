package model

import (
	"encoding/json"
	"slices"
)

// Granite is a Llama with four numbers: of the embedding, of scores in place of the root of a head's width, of what each part adds, and of logits.

// readGranite: Granite 3.
func readGranite(c *ConfigReader) (Definition, error) {
	m := c.granite("granite")
	m.mlpBias = c.Flag("mlp_bias", false)
	return c.finished(m)
}

func (c *ConfigReader) granite(kind string) decoder {
	m := c.decoder(kind, 10000, 1e-6, false, false)
	m.activation = c.act("hidden_act", "silu")
	m.qkvBias = c.Flag("attention_bias", false)
	m.oBias = m.qkvBias
	m.embeddingScale, m.scale = c.Number("embedding_multiplier", 1, false), c.Number("attention_multiplier", 1, false)
	m.branchScale, m.logits.divisor = c.Number("residual_multiplier", 1, false), c.Number("logits_scaling", 1, false)
	return m
}

// readGraniteHybrid: Granite 4 where all layers are attention, and all of the feed-forward part is shared by what would be experts. Gate and up are one
// matrix. Positions only where config.json says so.
func readGraniteHybrid(c *ConfigReader) (Definition, error) {
	c.absent("intermediate_size", "1024") // which nothing is made of
	m := c.granite("granitemoehybrid")
	m.intermediate = c.optionalSize("shared_intermediate_size", 1024)
	m.mlp = mlpNames{gate: "shared_mlp.input_linear", down: "shared_mlp.output_linear"}
	if c.optionalCount("num_local_experts", 8) != 0 {
		c.wrong("num_local_experts", "0: mixtures of experts are not supported")
	}
	var types []string
	if c.has("layer_types") {
		_ = json.Unmarshal(c.fields["layer_types"], &types)
	}
	if len(types) != len(m.layers) || slices.ContainsFunc(types, func(kind string) bool { return kind != "attention" && kind != fullAttention }) {
		c.wrong("layer_types", "attention for each layer: state spaces are not supported")
	}
	switch c.text("position_embedding_type", "nope") {
	case "rope":
	case "nope":
		for i := range m.layers {
			m.layers[i].rotation = nil
		}
	default:
		c.wrong("position_embedding_type", "rope or nope: others are not supported")
	}
	return c.finished(m, "mamba_chunk_size", "mamba_conv_bias", "mamba_d_conv", "mamba_d_head", "mamba_d_state", "mamba_expand", "mamba_n_groups", "mamba_n_heads",
		"mamba_proj_bias", "num_experts_per_tok", "router_aux_loss_coef", "output_router_logits", "init_method", "normalization_function")
}
