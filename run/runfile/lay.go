package runfile

import "fmt"

// Lay lays one value, in YAML, over the present one; from is what Origin will say of it.
func (c *Config) Lay(key, value string, from Origin) error {
	if err := c.set(key, value, from); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// ClearParameters takes the optimizer's own parameters away, as those of another optimizer.
func (c *Config) ClearParameters() {
	for name := range c.Optimizer.Parameters {
		delete(c.origin, "optimizer.parameters."+name)
	}
	c.Optimizer.Parameters = nil
}
