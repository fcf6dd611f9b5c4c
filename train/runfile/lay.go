package runfile

import (
	"fmt"
	"strings"
)

// Lay lays one value, in YAML, over the present one; from is what Origin will say of it.
func (c *Config) Lay(key, value string, from Origin) error {
	if err := c.set(key, value, from); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// Renamed gives the values that name:line is the origin of another one: no file has them yet.
func (c *Config) Renamed(name string, from func(key string) Origin) {
	for key, origin := range c.origin {
		if strings.HasPrefix(string(origin), name+":") {
			c.origin[key] = from(key)
		}
	}
}

// ClearParameters takes the optimizer's own parameters away, as those of another optimizer.
func (c *Config) ClearParameters() {
	for name := range c.Optimizer.Parameters {
		delete(c.origin, "optimizer.parameters."+name)
	}
	c.Optimizer.Parameters = nil
}
