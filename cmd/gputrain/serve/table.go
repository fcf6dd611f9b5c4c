package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gputrain/internal/jsonline"
	"gputrain/run/train"
)

// axes are what points stand over.
var axes = []string{"step", "tokens", "time"}

// axisOf is the number of an axis.
func axisOf(name string) (int, error) {
	if i := slices.Index(axes, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("x: found %q, wanted step, tokens or time", name)
}

// stepMS is the series of the time that a step took.
const stepMS = "step_ms"

// table has the numbers of metrics.jsonl by name. What a line means is not known here: every number of it, but its step, is a point of the series of
// its name, the n-th number of an array one of the series name.n, and one that stands under a key of an object one of name.key. A run that measures more
// is shown without a change.
type table struct {
	axes   [3][]float64 // of each line: its step; the tokens seen in training, and the seconds in steps, up to it
	series map[string]*series
	names  []string // of series with points, in the order in which they came
	found  []number // of the line at hand
}

// series is the points of one name: the line each comes from, and its value.
type series struct {
	name    string
	line    []int32
	value   []float64
	untimed bool // a line with a point has no time that its step took
}

type number struct {
	of    *series
	value float64
}

func newTable() *table { return &table{series: map[string]*series{}} }

// lines is the number of lines, those that cannot be read among them.
func (t *table) lines() int { return len(t.axes[0]) }

// ends are where the lines begin and end on an axis.
func (t *table) ends(axis int) (low, high float64) {
	if n := t.lines(); n > 0 {
		low, high = t.axes[axis][0], t.axes[axis][n-1]
	}
	return low, high
}

// add takes the next line. With an error it takes its place alone.
func (t *table) add(line []byte) error {
	n := t.lines()
	_, before := t.ends(0)
	_, tokens := t.ends(1)
	_, seconds := t.ends(2)
	step, ms, err := t.read(line)
	if err == nil && (!(step >= before) || math.IsInf(step, 0)) {
		err = fmt.Errorf("found step %v, wanted one that is not below %v", step, before)
	}
	if err == nil {
		for _, x := range t.found {
			s := x.of
			if s.value == nil {
				t.names = append(t.names, s.name)
			}
			s.line, s.value = append(s.line, int32(n)), append(s.value, x.value)
			s.untimed = s.untimed || !(ms > 0) || math.IsInf(ms, 0)
			if s.name == "tokens" && x.value >= tokens {
				tokens = x.value
			}
		}
		if ms >= 0 && !math.IsInf(ms, 0) {
			seconds += ms / 1000 * max(1, step-before)
		}
		before = step
	}
	for i, v := range []float64{before, tokens, seconds} {
		t.axes[i] = append(t.axes[i], v)
	}
	return err
}

// read finds the numbers of a line, also those written "NaN", "Infinity" and "-Infinity". Other texts, truth values, nulls and what is nested deeper
// than one array or object are left out. ms is NaN where the line has no time.
func (t *table) read(line []byte) (step, ms float64, err error) {
	t.found = t.found[:0]
	ms = math.NaN()
	stepped := false
	var inner []byte
	take := func(name, raw []byte) {
		v, ok := numberOf(raw)
		switch {
		case !ok:
			return
		case string(name) == "step":
			step, stepped = v, true
			return
		case string(name) == stepMS:
			ms = v
		}
		s := t.series[string(name)]
		if s == nil {
			s = &series{name: string(name)}
			t.series[s.name] = s
		}
		t.found = append(t.found, number{s, v})
	}
	valid := jsonline.Members(line, func(name, raw []byte) {
		if now, renamed := train.Renamed[string(name)]; renamed {
			name = []byte(now)
		}
		take(name, raw)
		n := 0
		jsonline.Members(raw, func(key, raw []byte) {
			inner = append(append(inner[:0], name...), '.')
			if key == nil {
				inner = strconv.AppendInt(inner, int64(n), 10)
			}
			inner = append(inner, key...)
			n++
			take(inner, raw)
		})
	})
	if !valid {
		err = json.Unmarshal(line, new(json.RawMessage)) // says what is wrong
	}
	if err == nil && !stepped {
		err = errors.New(`found no "step", wanted one in every line`)
	}
	return step, ms, err
}

func numberOf(raw []byte) (float64, bool) {
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

// weighed says whether a series is of shares or rates, and the time of each step is known: a mean of these counts every step by its time, or a short one
// would seem to be all that the devices did.
func (s *series) weighed() bool {
	family, _, _ := strings.Cut(s.name, ".")
	return !s.untimed && (strings.HasSuffix(family, "_per_second") || slices.Contains([]string{"mfu", "stage_busy", "bubble", "transfer"}, family))
}
