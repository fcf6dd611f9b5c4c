package model

import (
	"errors"
	"fmt"
)

// quantizedWeights reads how weights are stored quantized, whoever did it: nf4 of bitsandbytes is read, and forgotten, as
// all that is written is whole; so are the experts of a gpt_oss in mxfp4. Everything else is refused.
func (c *ConfigReader) quantizedWeights() {
	for _, key := range []string{"quantization_config", "compression_config"} {
		if !c.has(key) || string(c.fields[key]) == "{}" {
			continue
		}
		q := newConfigReader(c.object(key))
		by := q.text("quant_method", "")
		if by == "" {
			by = "some method"
		}
		if kind := c.text("model_type", ""); by == "mxfp4" && kind == "gpt_oss" {
			delete(c.fields, key)
			continue
		}
		if by == "bitsandbytes" || by == "some method" && q.Flag("load_in_4bit", false) {
			if by = q.bitsandbytes(); by == "" {
				delete(c.fields, key)
				continue
			}
		}
		c.errs = append(c.errs, fmt.Errorf("model: config: %s: found weights quantized by %s, wanted whole ones, or nf4 of bitsandbytes: take the model that was quantized", key, by))
	}
}

// bitsandbytes says which of its formats a quantization_config asks for, "" for nf4. The matrices that it skips, and whether
// maxima are nested, the files tell of themselves.
func (c *ConfigReader) bitsandbytes() string {
	kind := c.text("bnb_4bit_quant_type", "fp4") // as transformers has it where none is named
	four, eight := c.Flag("load_in_4bit", true), c.Flag("load_in_8bit", false)
	switch {
	case len(c.errs) > 0:
		return "bitsandbytes (" + errors.Join(c.errs...).Error() + ")"
	case eight:
		return "bitsandbytes in 8 bits"
	case four && kind != "nf4":
		return "bitsandbytes in " + kind
	}
	return ""
}
