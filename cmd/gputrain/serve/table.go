package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gputrain/train/jsonline"
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
	at, err := stepOf(line)
	if err == nil && (!(at >= step) || math.IsInf(at, 0)) {
		err = fmt.Errorf("found step %v, wanted one that is not below %v", at, step)
	}
	if err == nil {
		step = at
		for name, v := range numbers(line) {
			switch {
			case string(name) == "step":
				continue
			case string(name) == "tokens" && v >= tokens:
				tokens = v
			case string(name) == "step_ms" && v >= 0 && !math.IsInf(v, 0):
				seconds += v / 1000 * max(1, step-before)
			}
			s := t.series[string(name)]
			if s == nil {
				s = &series{}
				t.series[string(name)] = s
				t.names = append(t.names, string(name))
			}
			s.line, s.value = append(s.line, int32(n)), append(s.value, v)
		}
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

// stepOf is the step of a line, which must be a JSON object.
func stepOf(line []byte) (float64, error) {
	if !json.Valid(line) {
		return 0, json.Unmarshal(line, new(json.RawMessage)) // says what is wrong
	}
	for name, raw := range jsonline.Members(line) {
		if v, ok := number(raw); ok && string(name) == "step" {
			return v, nil
		}
	}
	return 0, errNoStep
}

// numbers are the numbers of a JSON object, in their order, also those written "NaN", "Infinity" and "-Infinity", with their names, which are valid
// until the next. Other texts, truth values, nulls and what is nested deeper than one array or object are left out.
func numbers(line []byte) iter.Seq2[[]byte, float64] {
	return func(yield func(name []byte, v float64) bool) {
		var inner []byte
		for name, raw := range jsonline.Members(line) {
			if v, ok := number(raw); ok && !yield(name, v) {
				return
			}
			n := 0
			for key, raw := range jsonline.Members(raw) {
				inner = append(append(inner[:0], name...), '.')
				if key == nil {
					inner = strconv.AppendInt(inner, int64(n), 10)
				}
				inner = append(inner, key...)
				n++
				if v, ok := number(raw); ok && !yield(inner, v) {
					return
				}
			}
		}
	}
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
