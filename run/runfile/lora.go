package runfile

import (
	"gputrain/model"
)

// loRA is the section of the adapters that are trained in place of the model.
type loRA struct {
	From string `yaml:"from" resume:"directory" doc:"directory of an adapter (adapter_config.json, adapter_model.safetensors), such as a checkpoint of another run, that training goes on with. Its adapter_config.json then says what the keys below say otherwise, except lora.b_rate. Empty: a new adapter, if lora.rank is above 0"`
	model.LoRA
	BRate float64 `yaml:"b_rate" default:"1" range:">0" doc:"LoRA+: learning rate of the matrices B, and of dora's lengths, as a multiple of the others'. A parameter that optimizer.rates matches has its rate from there alone"`
}

// On tells whether the run trains adapters.
func (l loRA) On() bool { return l.Rank > 0 || l.From != "" }

// validateLoRA refuses adapters without a model that they belong to, and keys that have no effect.
func (c *Config) validateLoRA() error {
	if c.LoRA.On() && c.Model.From == "" {
		key, found := "lora.rank", any(c.LoRA.Rank)
		if c.LoRA.From != "" {
			key, found = "lora.from", c.LoRA.From
		}
		return c.Invalid(key, found, "nothing without model.from, which adapters belong to")
	}
	for _, f := range c.changed("lora.") {
		switch {
		case f.key == "lora.from":
		case !c.LoRA.On():
			return c.Invalid(f.key, inline(c.value(f)), "nothing without lora.rank or lora.from")
		case c.LoRA.From != "" && f.key != "lora.b_rate":
			return c.Invalid(f.key, inline(c.value(f)), "nothing beside lora.from, whose adapter_config.json says it")
		}
	}
	return nil
}
