package llamacpp

import "maps"

// ministralKeys are how frequencies change, and how much queries grow.
func ministralKeys(c *config) (keys []fact) {
	s := c.rules()
	if c.rule() != "yarn" {
		return nil
	}
	for _, turns := range yarnTurns {
		keys = append(keys, fact{"rope.scaling.yarn_" + turns.key, float32(s.number(turns.key, turns.usual))})
	}
	keys = append(keys, fact{yarnLogMultiplier, float32(1)})
	if by := s.number(queriesGrow, 0); by != 0 {
		keys = append(keys, fact{temperatureScale, float32(by)})
	}
	return keys
}

const (
	yarnLogMultiplier = "rope.scaling.yarn_log_multiplier"
	temperatureScale  = "attention.temperature_scale"
	queriesGrow       = "llama_4_scaling_beta"
)

func readMinistral3(d *Directory, c map[string]any) {
	rule, ok := c["rope_scaling"].(map[string]any)
	if !ok {
		return
	}
	rule = maps.Clone(rule)
	if by, ok := d.stated.number(yarnLogMultiplier); ok && by != 0 {
		rule["mscale"], rule["mscale_all_dim"] = short(by), short(by)
	}
	if by, ok := d.stated.number(temperatureScale); ok {
		rule[queriesGrow] = short(by)
	}
	rule["rope_theta"] = c["rope_theta"]
	c["rope_parameters"] = rule
	delete(c, "rope_scaling")
	delete(c, "rope_theta")
}
