package model

// readMinistral3: Mistral with yarn; behind its rotation a query is multiplied by 1 + b ln(1 + floor(t/o)), o the positions that the model began with.
func readMinistral3(c *ConfigReader) (Definition, error) {
	c.ropeMore = []string{"llama_4_scaling_beta", "max_position_embeddings"}
	m := c.decoder("ministral3", 10000, 1e-5, false, true)
	m.activation = c.act("hidden_act", "silu")
	if rope := newConfigReader(c.object("rope_parameters")); rope.has("llama_4_scaling_beta") {
		queries := *m.layers[0].rotation
		queries.grow, queries.every = rope.Number("llama_4_scaling_beta", 0, true), float64(rope.Size("original_max_position_embeddings"))
		c.errs = append(c.errs, rope.errs...)
		for i := range m.layers {
			m.layers[i].queries = &queries
		}
	}
	window := c.optionalSize("sliding_window", 0)
	c.windows(&m, window, func(int) bool { return window > 0 })
	return c.finished(m)
}
