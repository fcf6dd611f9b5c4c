package runfile

import (
	"encoding/json"
	"reflect"

	"gputrain/optim"
)

// hyperball are patterns of the paths of matrices that keep their norm; the word true stands for those of layers. In the run file it is false, true, or
// patterns.
type hyperball []string

const hiddenMatrices = "true"

func (h *hyperball) take(v any) bool {
	*h = nil
	if on, ok := v.(bool); ok {
		if on {
			*h = hyperball{hiddenMatrices}
		}
		return true
	}
	patterns, ok := convert(v, reflect.TypeFor[[]string]())
	*h = patterns.Interface().([]string)
	return ok && v != nil
}

func (*hyperball) kind() string { return "true, false, or a list of patterns" }

func (*hyperball) schema() schema {
	pattern := schema{"type": "string"}
	expression{}.tell(pattern)
	return schema{"anyOf": []schema{{"type": "boolean"}, pattern, {"type": "array", "items": pattern}}}
}

// plain is the value as it stands in the run file.
func (h hyperball) plain() any {
	if len(h) == 0 || h[0] == hiddenMatrices {
		return len(h) > 0
	}
	return []string(h)
}

// MarshalJSON writes what the run file has.
func (h hyperball) MarshalJSON() ([]byte, error) { return json.Marshal(h.plain()) }

// String is one line of YAML.
func (h hyperball) String() string { return inline(h.plain()) }

// option is what the optimizer takes.
func (h hyperball) option() (out optim.Hyperball) {
	switch v := h.plain().(type) {
	case bool:
		out.Hidden = v
	case []string:
		out.Mask = optim.MaskPatterns(v...)
	}
	return out
}

// validateLanding refuses keys of the end of an update that have nothing to say.
func (c *Config) validateLanding() error {
	o := c.Optimizer
	switch {
	case o.CautiousDecay && o.WeightDecay == 0:
		return c.Invalid("optimizer.cautious_decay", true, "false without optimizer.weight_decay")
	case c.Model.ZeroOutputs && o.Hyperball.option().Hidden:
		return c.Invalid("model.zero_outputs", true, "false with optimizer.hyperball true: a matrix of zeros has no norm to keep")
	case o.FloorBy != "row" && o.UpdateFloor == 0:
		return c.Invalid("optimizer.floor_by", o.FloorBy, "row without optimizer.update_floor")
	}
	for _, group := range []struct {
		prefix, size string
		on           bool
	}{
		{"optimizer.lookahead.", "scale", o.Lookahead.Scale > 0},
		{"optimizer.average.", "horizon", o.Average.Horizon > 0},
	} {
		if changed := c.changed(group.prefix); !group.on && len(changed) > 0 {
			return c.Invalid(changed[0].key, inline(c.value(changed[0])), "nothing without "+group.prefix+group.size)
		}
	}
	return nil
}
