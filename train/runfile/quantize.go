package runfile

import (
	"fmt"
	"slices"

	"gputrain/graph"
)

// Quantize says which parameters the network reads in few bits while it is trained.
type Quantize struct {
	Mode  string   `yaml:"mode" default:"none" range:"quantizations" doc:"format in which the network reads quantized parameters: none, affine (even steps), nf4, mxfp4, mxfp8 or nvfp4. It also overrides the quantization of model.from"`
	Bits  int      `yaml:"bits" range:"0.." doc:"affine: bits of a number, 2 to 8; 0: 4"`
	Group int      `yaml:"group" range:"0.." doc:"affine and nf4: neighbours in a row that share a scale; 0: 64 (mxfp4 and mxfp8 have 32, nvfp4 has 16)"`
	Match []string `yaml:"match" range:"pattern" doc:"regular expressions of the parameter paths to quantize; empty: every matrix of a layer, but neither the embeddings nor a separate output head"`
}

// NotQuantized is the mode in which a network reads its parameters as they are.
const NotQuantized = "none"

// quantizeModes are the values of model.quantize.mode.
var quantizeModes = slices.Concat([]string{NotQuantized}, graph.QuantizeModes)

func (c *Config) validateQuantize() error {
	q := c.Model.Quantize
	if q.Mode != NotQuantized {
		if err := (graph.Quantize{Mode: q.Mode, Bits: q.Bits, Group: q.Group}).Or().Validate(); err != nil {
			return fmt.Errorf("run file: model.quantize (%s): %w", c.Origin("model.quantize.mode"), err)
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
			return c.invalid(without.key, without.value, "nothing without model.quantize.mode")
		}
	}
	return nil
}
