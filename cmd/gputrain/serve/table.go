package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// table is the numbers of metrics.jsonl by name. What a line means is not known here: every number of it, but its step, is a point of the
// series of its name, the n-th number of an array one of the series name.n, and one that stands under a key of an object one of name.key. A
// run that measures more is shown without a change.
type table struct {
	steps  []float64 // of each line
	tokens []float64 // seen in training up to the line
	time   []float64 // in steps, in seconds, up to the line
	names  []string  // of the series, in the order in which they came
	series map[string]*series
}

// series is the points of one name: the line each comes from, and its value.
type series struct {
	line  []int32
	value []float64
}

var errNoStep = errors.New(`found no "step", wanted one in every line`)

// add takes a line. Where it is none, nothing is taken of it but its place.
func (t *table) add(line []byte) error {
	if t.series == nil {
		t.series = map[string]*series{}
	}
	n := len(t.steps)
	step, tokens, seconds := 0.0, 0.0, 0.0
	if n > 0 {
		step, tokens, seconds = t.steps[n-1], t.tokens[n-1], t.time[n-1]
	}
	before := step
	fields, err := numbers(line)
	if err == nil {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == "step" })
		switch {
		case i < 0:
			err, fields = errNoStep, nil
		case !(fields[i].value >= step) || math.IsInf(fields[i].value, 0):
			err, fields = fmt.Errorf("found step %v, wanted one that is not below %v", fields[i].value, step), nil
		default:
			step = fields[i].value
		}
	}
	for _, f := range fields {
		switch {
		case f.name == "step":
			continue
		case f.name == "tokens" && f.value >= tokens:
			tokens = f.value
		case f.name == "step_ms" && f.value >= 0 && !math.IsInf(f.value, 0):
			seconds += f.value / 1000 * max(1, step-before)
		}
		s := t.series[f.name]
		if s == nil {
			s = &series{}
			t.series[f.name] = s
			t.names = append(t.names, f.name)
		}
		s.line, s.value = append(s.line, int32(n)), append(s.value, f.value)
	}
	t.steps, t.tokens, t.time = append(t.steps, step), append(t.tokens, tokens), append(t.time, seconds)
	return err
}

// rewind forgets all but the first lines.
func (t *table) rewind(keep int) {
	t.steps, t.tokens, t.time = t.steps[:keep], t.tokens[:keep], t.time[:keep]
	names := t.names[:0]
	for _, name := range t.names {
		s := t.series[name]
		n := sort.Search(len(s.line), func(i int) bool { return int(s.line[i]) >= keep })
		if s.line, s.value = s.line[:n], s.value[:n]; n == 0 {
			delete(t.series, name)
			continue
		}
		names = append(names, name)
	}
	t.names = names
}

// last is the newest value of a series.
func (t *table) last(name string) (float64, bool) {
	s := t.series[name]
	if s == nil {
		return 0, false
	}
	return s.value[len(s.value)-1], true
}

// seconds is how long the step of each point of a series took, where it is of shares or rates: a mean of these counts every step by its time, or a
// short one would seem to be all that the devices did. It is nil where the series is of something else, or the time is not known.
func (t *table) seconds(name string) []float64 {
	family, _, _ := strings.Cut(name, ".")
	if !strings.HasSuffix(family, "_per_second") && !slices.Contains([]string{"mfu", "stage_busy", "bubble", "transfer"}, family) {
		return nil
	}
	s, took := t.series[name], t.series["step_ms"]
	if took == nil {
		return nil
	}
	out, at := make([]float64, len(s.line)), 0
	for i, line := range s.line {
		for at < len(took.line) && took.line[at] < line {
			at++
		}
		if at == len(took.line) || took.line[at] != line || !(took.value[at] > 0) || math.IsInf(took.value[at], 0) {
			return nil
		}
		out[i] = took.value[at] / 1000
	}
	return out
}

// axis is where the lines stand on the axis of that name.
func (t *table) axis(name string) ([]float64, error) {
	switch name {
	case "", "step":
		return t.steps, nil
	case "tokens":
		return t.tokens, nil
	case "time":
		return t.time, nil
	}
	return nil, fmt.Errorf("serve: x: found %q, wanted step, tokens or time", name)
}

type field struct {
	name  string
	value float64
}

// numbers are the numbers of a JSON object, in their order, also those written "NaN", "Infinity" and "-Infinity". Other texts, truth
// values, nulls and what is nested deeper than one array or object are left out.
func numbers(line []byte) ([]field, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, fmt.Errorf("found %v, wanted an object", t)
	}
	var out []field
	err := members(d, true, func(name string, raw json.RawMessage) error {
		if v, ok := number(raw); ok {
			out = append(out, field{name, v})
			return nil
		}
		if raw[0] != '[' && raw[0] != '{' {
			return nil
		}
		inner := json.NewDecoder(bytes.NewReader(raw))
		if _, err := inner.Token(); err != nil {
			return err
		}
		return members(inner, raw[0] == '{', func(key string, raw json.RawMessage) error {
			if v, ok := number(raw); ok {
				out = append(out, field{name + "." + key, v})
			}
			return nil
		})
	})
	return out, err
}

// members hands over what is in the object or array that a decoder stands in: its key or place, and its text.
func members(d *json.Decoder, keys bool, use func(key string, raw json.RawMessage) error) error {
	for n := 0; d.More(); n++ {
		key := strconv.Itoa(n)
		if keys {
			token, err := d.Token()
			if err != nil {
				return err
			}
			key = token.(string)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if err := use(key, raw); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func number(raw []byte) (float64, bool) {
	switch string(raw) {
	case `"NaN"`:
		return math.NaN(), true
	case `"Infinity"`:
		return math.Inf(1), true
	case `"-Infinity"`:
		return math.Inf(-1), true
	}
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	return v, err == nil
}
