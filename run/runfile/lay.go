package runfile

import (
	"fmt"
	"reflect"
)

// Put puts a value over the present one of a key; from is what Origin will say of it. It panics where the value is not of the key's type.
func (c *Config) Put(key string, value any, from Origin) {
	f, _ := find(key)
	c.at(f).Set(reflect.ValueOf(value).Convert(f.typ))
	c.origin[key] = from
}

// at is where the value of a key lives.
func (c *Config) at(f field) reflect.Value {
	return reflect.ValueOf(&c.Run).Elem().FieldByIndex(f.index)
}

// With is the run file with more assignments of --set over it.
func (c *Config) With(sets ...string) (*Config, error) {
	out := c.Clone()
	for _, s := range sets {
		if err := out.Set(s); err != nil {
			return nil, err
		}
	}
	out.layRead()
	return out, out.Validate()
}

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
