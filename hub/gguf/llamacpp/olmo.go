package llamacpp

import (
	"fmt"
	"math"
)

const slidingWindow = "attention.sliding_window"

// olmo3 refuses a factor of turned pairs that llama.cpp does not read.
func olmo3(c *config) error {
	s := c.rules()
	usual := yarnAmplify(s.number("factor", 1))
	if by := s.number("attention_factor", usual); c.rule() == "yarn" && math.Abs(by-usual) > 1e-6 {
		return fmt.Errorf("rope_scaling: attention_factor: found %g, wanted %g: llama.cpp has no other in an olmo3", by, usual)
	}
	if rule := c.rule(); rule != "" && rule != "default" && rule != "yarn" {
		return fmt.Errorf("rope_scaling: found %q, wanted default or yarn: llama.cpp has no other in an olmo3", rule)
	}
	if c.window() == 0 {
		return fmt.Errorf("sliding_window: found none, wanted one: llama.cpp has no olmo3 without windows")
	}
	theta, err := c.local()
	if full := c.theta(); err == nil && theta != full {
		err = fmt.Errorf("rope_parameters: found a base of %g in layers with a window and %g in others, wanted one: llama.cpp has one in an olmo3", theta, full)
	}
	return err
}

func olmo3Keys(c *config) []fact {
	var slides []bool
	for i := range c.integer("num_hidden_layers") {
		slides = append(slides, c.slides(i))
	}
	return []fact{{slidingWindow, uint32(c.window())}, {"attention.sliding_window_pattern", slides}}
}

func readOLMo3(d *Directory, c map[string]any) {
	c["sliding_window"], _ = d.stated.integer(slidingWindow)
	d.layerTypes(c)
}
