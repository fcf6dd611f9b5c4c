package runfile

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

var _ io.WriterTo = (*Config)(nil)

// WriteTo writes every value in force as a run file, each with its origin as a
// comment. Reading it back gives the same run.
func (c *Config) WriteTo(w io.Writer) (int64, error) {
	return c.write(w, func(f field) (above, beside string) { return "", string(c.origin[f.key]) })
}

// Template writes the defaults as a run file, each key below its description.
func Template(w io.Writer) error {
	_, err := New().write(w, func(f field) (above, beside string) { return f.doc, "" })
	return err
}

// Explain writes a line a key: its value and where it came from.
func (c *Config) Explain(w io.Writer) error {
	width := 0
	for _, f := range fields {
		width = max(width, len(f.key))
	}
	for _, f := range fields {
		if f.key == "optimizer.parameters" {
			for _, name := range sortedKeys(c.Optimizer.Parameters) {
				key := "optimizer.parameters." + name
				if _, err := fmt.Fprintf(w, "%-*s = %-24v  # %s\n", width, "optimizer."+name, c.Optimizer.Parameters[name], c.origin[key]); err != nil {
					return err
				}
			}
			continue
		}
		if _, err := fmt.Fprintf(w, "%-*s = %-24s  # %s\n", width, f.key, c.text(f), c.origin[f.key]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) write(w io.Writer, comment func(field) (above, beside string)) (int64, error) {
	var b strings.Builder
	var open []string
	for _, f := range fields {
		path := strings.Split(f.key, ".")
		for depth := range len(path) - 1 {
			if depth >= len(open) || open[depth] != path[depth] {
				open = append(open[:depth:depth], path[depth])
				fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", depth), path[depth])
			}
		}
		open = open[:len(path)-1]
		indent := strings.Repeat("  ", len(path)-1)
		above, beside := comment(f)
		if above != "" {
			fmt.Fprintf(&b, "%s# %s\n", indent, above)
		}
		if f.key == "optimizer.parameters" {
			c.writeParameters(&b, indent, above == "")
			continue
		}
		fmt.Fprintf(&b, "%s%s: %s", indent, path[len(path)-1], c.text(f))
		if beside != "" {
			fmt.Fprintf(&b, "  # %s", beside)
		}
		b.WriteByte('\n')
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func (c *Config) writeParameters(b *strings.Builder, indent string, origins bool) {
	if len(c.Optimizer.Parameters) == 0 {
		fmt.Fprintf(b, "%sparameters: {}\n", indent)
		return
	}
	fmt.Fprintf(b, "%sparameters:\n", indent)
	for _, name := range sortedKeys(c.Optimizer.Parameters) {
		fmt.Fprintf(b, "%s  %s: %s", indent, name, inline(c.Optimizer.Parameters[name]))
		if origins {
			fmt.Fprintf(b, "  # %s", c.origin["optimizer.parameters."+name])
		}
		b.WriteByte('\n')
	}
}

func (c *Config) text(f field) string {
	v := reflect.ValueOf(c.Run).FieldByIndex(f.index)
	if v.Kind() == reflect.Slice && v.Len() == 0 {
		return "[]"
	}
	return inline(v.Interface())
}

// inline is a value on one line of YAML.
func inline(v any) string {
	if s, ok := v.(string); ok && s == "" {
		return `""`
	}
	out, err := yaml.MarshalWithOptions(v, yaml.Flow(true), yaml.JSON())
	if err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(string(out))
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
