package runfile

import (
	"slices"

	"gputrain/graph"
)

// NotQuantized is the mode in which a network reads its parameters as they are.
const NotQuantized = "none"

// quantizeModes are the values of model.quantize.mode.
var quantizeModes = slices.Concat([]string{NotQuantized}, graph.QuantizeModes)

func (c *Config) validateQuantize() error {
	q := c.Model.Quantize
	if q.Mode != NotQuantized {
		if err := (graph.Quantize{Mode: q.Mode, Bits: q.Bits, Group: q.Group}).Or().Validate(); err != nil {
			return c.Wrong("model.quantize", err)
		}
		return nil
	}
	for _, without := range []struct {
		key   string
		given bool
		value any
	}{
		{"model.quantize.bits", q.Bits != 0, q.Bits}, {"model.quantize.group", q.Group != 0, q.Group}, {"model.quantize.match", len(q.Match) > 0, q.Match},
	} {
		if without.given {
			return c.Invalid(without.key, without.value, "nothing without model.quantize.mode")
		}
	}
	return nil
}
