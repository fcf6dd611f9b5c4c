package runfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gputrain/pipeline/partition"
	"gputrain/run/reward"

	"github.com/goccy/go-yaml"
)

// Template writes the defaults as a run file, each key below its description.
func Template(w io.Writer) error {
	c := New()
	var b strings.Builder
	var open []string
	for _, f := range fields {
		path := strings.Split(f.key, ".")
		name, groups := path[len(path)-1], path[:len(path)-1]
		for depth, group := range groups {
			if depth >= len(open) || open[depth] != group {
				open = append(open[:depth:depth], group)
				fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", depth), group)
			}
		}
		open = groups
		indent := strings.Repeat("  ", len(groups))
		fmt.Fprintf(&b, "%s# %s\n%s%s: %s\n", indent, told(f.doc), indent, name, inline(c.value(f)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Explain writes a line a key: its value and where it came from.
func (c *Config) Explain(w io.Writer) error {
	width := 0
	for key := range c.Values() {
		width = max(width, len(key))
	}
	for key, value := range c.Values() {
		if _, err := fmt.Fprintf(w, "%-*s = %-24s  # %s\n", width, key, inline(value), c.Origin(key)); err != nil {
			return err
		}
	}
	return nil
}

// inline is a value on one line of YAML.
func inline(v any) string {
	switch v := v.(type) {
	case string:
		if v == "" {
			return `""`
		}
	case []string:
		if len(v) == 0 {
			return "[]"
		}
	case []adapter:
		return adaptersText(v)
	case []partition.Rule:
		if len(v) == 0 {
			return "[]"
		}
	case Intervals:
		return v.String()
	case hyperball:
		return v.String()
	case []Source:
		if out, err := json.Marshal(v); err == nil && len(v) > 0 { // fields that are left out stay so
			return string(out)
		}
		return "[]"
	case []reward.Spec:
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false) // tags
		if err := e.Encode(v); err == nil && len(v) > 0 {
			return strings.TrimSpace(out.String())
		}
		return "[]"
	}
	if of := reflect.ValueOf(v); of.Kind() == reflect.Map && of.Len() == 0 {
		return "{}"
	}
	out, err := yaml.MarshalWithOptions(v, yaml.Flow(true), yaml.JSON())
	if err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(string(out))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
