package runfile

import (
	"fmt"
	"reflect"
	"strings"
)

// Validate checks what can be checked without data or device; an error names
// the key, where its value came from, what was found and what was wanted.
func (c *Config) Validate() error {
	for _, f := range fields {
		if b := breachOf(f.key, f.key, reflect.ValueOf(c.value(f))); b != nil {
			return c.invalid(b.at, b.found, b.wanted)
		}
	}
	if b := c.Train.SaveEvery.breach(); b != nil {
		return c.invalid(b.at, b.found, b.wanted)
	}
	if m := c.Model; len(m.AllowMissing) > 0 && m.From == "" {
		return c.invalid("model.allow_missing", m.AllowMissing, "nothing without model.from")
	}
	if err := c.validateQuantize(); err != nil {
		return err
	}
	if err := c.validateLoRA(); err != nil {
		return err
	}
	if err := c.validatePreference(); err != nil {
		return err
	}
	if err := c.validatePipeline(); err != nil {
		return err
	}
	if err := c.validateData(); err != nil {
		return err
	}
	return c.validateOptimizer()
}

// invalid is the error for a value, whose key may go on with its place in a list.
func (c *Config) invalid(at string, found any, wanted string) error {
	key, _, _ := strings.Cut(at, "[")
	return fmt.Errorf("run file: %s (%s): found %v, wanted %s", at, c.Origin(key), found, wanted)
}
