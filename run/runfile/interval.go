package runfile

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// Interval is how often something is done until a step: at every multiple of Every.
type Interval struct {
	Every int64 `json:"every"`
	Until int64 `json:"until,omitempty"` // the last step it is for; 0: to the end
}

// Intervals follow on each other: a step has the first one that it is not beyond. In the run file one without an end is its number alone, and
// none is 0.
type Intervals []Interval

// take converts what the run file has.
func (v *Intervals) take(from any) bool {
	if n, ok := whole(from); ok {
		*v = nil
		if n != 0 {
			*v = Intervals{{Every: n}}
		}
		return true
	}
	list, ok := from.([]any)
	if !ok {
		return false
	}
	*v = nil
	for _, item := range list {
		var i Interval
		if !i.take(item) {
			return false
		}
		*v = append(*v, i)
	}
	return true
}

func (i *Interval) take(from any) bool {
	values, ok := from.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range values {
		n, ok := whole(value)
		switch {
		case key == "every" && ok:
			i.Every = n
		case key == "until" && (ok || value == nil):
			i.Until = n
		default:
			return false
		}
	}
	_, ok = values["every"]
	return ok
}

func (*Intervals) kind() string { return "a whole number, or a list, each {every: N, until: STEP}" }

func (*Intervals) schema() schema {
	whole := func(min int) schema { return schema{"type": "integer", "minimum": min, "maximum": math.MaxInt32} }
	until := whole(0)
	until["type"] = []string{"integer", "null"}
	return schema{"anyOf": []schema{whole(0), {"type": "array", "items": schema{
		"type": "object", "additionalProperties": false, "required": []string{"every"},
		"properties": schema{"every": whole(1), "until": until},
	}}}}
}

// plain is the value as it stands in the run file.
func (v Intervals) plain() any {
	switch {
	case len(v) == 0:
		return 0
	case len(v) == 1 && v[0].Until == 0:
		return v[0].Every
	}
	return []Interval(v)
}

// MarshalJSON writes what the run file has.
func (v Intervals) MarshalJSON() ([]byte, error) { return json.Marshal(v.plain()) }

// String is one line of YAML.
func (v Intervals) String() string {
	list, ok := v.plain().([]Interval)
	if !ok {
		return fmt.Sprint(v.plain())
	}
	var items []string
	for _, i := range list {
		if i.Until == 0 {
			items = append(items, fmt.Sprintf("{every: %d}", i.Every))
		} else {
			items = append(items, fmt.Sprintf("{every: %d, until: %d}", i.Every, i.Until))
		}
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func whole(v any) (int64, bool) {
	n, ok := convert(v, reflect.TypeFor[int64]())
	return n.Int(), ok
}

// breach is of intervals that do not follow on each other.
func (v Intervals) breach() *breach {
	for n, i := range v {
		wanted := ""
		switch {
		case i.Every < 1 || i.Until < 0:
			wanted = "every and until of 1 or more"
		case i.Until == 0 && n < len(v)-1:
			wanted = "an until in each interval but the last"
		case n > 0 && i.Until != 0 && i.Until <= v[n-1].Until:
			wanted = "intervals whose until ascends"
		}
		if wanted != "" {
			return &breach{"train.save_every", v, wanted}
		}
	}
	return nil
}
