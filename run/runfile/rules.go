package runfile

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/buffers/array"
	"gputrain/internal/formats"
	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/run/reward"
)

// A rule is what a value has to be beyond its type: what Validate holds it to, and what Schema tells editors. That of a list is for each of
// its items, that of a value that may be null for any other.
type rule interface {
	check(v reflect.Value) (wanted string) // "" where v keeps it
	tell(s schema)
}

// rules are those of the keys that have the tag range; of a field of a list's structs by the key of the list. What keys say together is for
// validatePipeline, validateData and validateOptimizer.
var rules = rulesBelow("", reflect.TypeFor[Run](), map[string]rule{})

// namedRanges are the values of the tag range that are no interval and no list of words: ranges that other packages decide, and forms of text.
var namedRanges = map[string]rule{
	"formats":       oneOf(formats.Rows),
	"preferences":   preferences,
	"references":    oneOf{referenceBase, ReferenceStart},
	"heads":         heads,
	"rollouts":      rolloutLosses,
	"date":          form{dates, isDate, "a date such as 2024-07-26"},
	"bases":         oneOf(array.Names(array.Bases)),
	"whole":         oneOf(array.Names(slices.DeleteFunc(slices.Clone(array.Bases), array.DType.Packed))),
	"quantizations": oneOf(quantizeModes),
	"mixture_ends":  oneOf(data.Ends),
	"packings":      oneOf(data.Packings),
	"longs":         oneOf(data.Longs),
	"prefetch":      between{0, data.MaxPrefetch},
	"families":      registered(model.Kinds),
	"optimizers":    registered(optim.Names),
	"schedules":     oneOf(optim.ScheduleNames()),
	"numerics":      oneOf{string(optim.Stable), string(optim.EFormer)},
	"duration":      form{durations, isDuration, durationForm},
	"size":          form{sizes, isSize, sizeForm},
	"pattern":       expression{},
	"finite":        finite{},
	"rewards":       oneOf(reward.Kinds()),
}

// rulesBelow adds the rules of the fields of a type, or of a list's items, to those there are.
func rulesBelow(prefix string, t reflect.Type, all map[string]rule) map[string]rule {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return all
	}
	for _, f := range keysOf(t) {
		key := prefix + keyOf(f)
		if tag := f.Tag.Get("range"); tag != "" {
			r, err := parseRange(tag, f.Type)
			if err != nil {
				panic(fmt.Sprintf("runfile: key %s: range: %v", key, err))
			}
			all[key] = r
		}
		rulesBelow(key+".", f.Type, all)
	}
	return all
}

// parseRange reads the tag range of a field of type t.
func parseRange(tag string, t reflect.Type) (rule, error) {
	if r, ok := namedRanges[tag]; ok {
		return r, nil
	}
	if tag == ">0" {
		return positive{}, nil
	}
	if words := strings.Split(tag, "|"); len(words) > 1 {
		return oneOf(words), nil
	}
	from, to, ok := strings.Cut(tag, "..")
	if !ok {
		return nil, fmt.Errorf("found %q, wanted an interval, words or one of %s", tag, strings.Join(sortedKeys(namedRanges), ", "))
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Float64 {
		if from != "0" || to == "" {
			return nil, fmt.Errorf("found %q, wanted an interval from 0 to a number", tag)
		}
		most, err := strconv.ParseFloat(to, 64)
		return atMost(most), err
	}
	first, err := strconv.Atoi(from)
	if err != nil || to == "" {
		return least(first), err
	}
	last, err := strconv.Atoi(to)
	return between{first, last}, err
}

// least is the smallest whole number.
type least int

func (r least) check(v reflect.Value) string {
	if v.Int() < int64(r) {
		return fmt.Sprintf("%d or more", int(r))
	}
	return ""
}

func (r least) tell(s schema) { s["minimum"] = int(r) }

// between are the smallest and the largest whole number.
type between struct{ least, most int }

func (r between) check(v reflect.Value) string {
	if n := v.Int(); n < int64(r.least) || n > int64(r.most) {
		return fmt.Sprintf("%d to %d", r.least, r.most)
	}
	return ""
}

func (r between) tell(s schema) { s["minimum"], s["maximum"] = r.least, r.most }

// atMost is the largest number, of those from 0.
type atMost float64

func (r atMost) check(v reflect.Value) string {
	if f := v.Float(); !(f >= 0 && f <= float64(r)) {
		return fmt.Sprintf("0 to %g", float64(r))
	}
	return ""
}

func (r atMost) tell(s schema) {
	s["minimum"], s["maximum"] = 0, float64(r)
}

// positive is for finite numbers above 0.
type positive struct{}

func (positive) check(v reflect.Value) string {
	if f := v.Float(); !(f > 0) || math.IsInf(f, 1) {
		return "more than 0"
	}
	return ""
}

func (positive) tell(s schema) { s["exclusiveMinimum"] = 0 }

// finite is for all numbers but those that YAML has and JSON has not.
type finite struct{}

func (finite) check(v reflect.Value) string {
	if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
		return "a finite number"
	}
	return ""
}

func (finite) tell(schema) {}

// oneOf lists the texts that there are.
type oneOf []string

func (r oneOf) check(v reflect.Value) string {
	if slices.Contains(r, v.String()) {
		return ""
	}
	return "one of " + strings.Join(r, ", ") + suggest.DidYouMean(v.String(), r)
}

func (r oneOf) tell(s schema) { s["enum"] = []string(r) }

// registered lists the names that there are by the time of the question: a program that embeds this one registers its own later.
type registered func() []string

func (r registered) check(v reflect.Value) string { return oneOf(r()).check(v) }

func (r registered) tell(s schema) { oneOf(r()).tell(s) }

// form is for text of a pattern; is says whether what has it can be meant.
type form struct {
	pattern *regexp.Regexp
	is      func(string) bool
	wanted  string
}

func (r form) check(v reflect.Value) string {
	if r.is(v.String()) {
		return ""
	}
	return r.wanted
}

func (r form) tell(s schema) { s["pattern"] = r.pattern.String() }

// expression is for regular expressions in the syntax of Go, of which editors know nothing.
type expression struct{}

func (expression) check(v reflect.Value) string {
	if v.String() == "" {
		return "a regular expression; .* matches all"
	}
	if _, err := regexp.Compile(v.String()); err != nil {
		return fmt.Sprintf("a regular expression: %v", err)
	}
	return ""
}

func (expression) tell(s schema) { s["minLength"] = 1 }

// A breach is a value that is not what the rule of its key wants.
type breach struct {
	at     string // the key, with the places in lists
	found  any
	wanted string
}

// breachOf holds a value and all that is in it to the rules below key; at is the key with the places in lists. nil: it keeps them.
func breachOf(key, at string, v reflect.Value) *breach {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		b := breachOf(key, at, v.Elem())
		if b != nil {
			b.wanted += ", or null"
		}
		return b
	case reflect.Slice:
		for i := range v.Len() {
			if b := breachOf(key, fmt.Sprintf("%s[%d]", at, i), v.Index(i)); b != nil {
				return b
			}
		}
		return nil
	case reflect.Struct:
		for _, f := range keysOf(v.Type()) {
			name := "." + keyOf(f)
			if b := breachOf(key+name, at+name, v.FieldByIndex(f.Index)); b != nil {
				return b
			}
		}
		return nil
	}
	r, ok := rules[key]
	if !ok {
		return nil
	}
	wanted := r.check(v)
	if wanted == "" {
		return nil
	}
	found := v.Interface()
	if v.Kind() == reflect.String {
		found = strconv.Quote(v.String())
	}
	return &breach{at, found, wanted}
}

// Validate checks what can be checked without data or device; an error names
// the key, where its value came from, what was found and what was wanted.
func (c *Config) Validate() error {
	for _, f := range fields {
		if b := breachOf(f.key, f.key, reflect.ValueOf(c.value(f))); b != nil && !c.ofRead(f.key) {
			return c.Invalid(b.at, b.found, b.wanted)
		}
	}
	if b := c.Train.SaveEvery.breach(); b != nil {
		return c.Invalid(b.at, b.found, b.wanted)
	}
	if m := c.Model; len(m.AllowMissing) > 0 && m.From == "" {
		return c.Invalid("model.allow_missing", m.AllowMissing, "nothing without model.from")
	}
	if m := c.Model; m.ZeroOutputs && m.From != "" {
		return c.Invalid("model.zero_outputs", m.ZeroOutputs, "false with model.from, whose weights are those of a model that is trained")
	}
	if err := c.validateQuantize(); err != nil {
		return err
	}
	if err := c.validateLoRA(); err != nil {
		return err
	}
	if err := c.validateObjective(); err != nil {
		return err
	}
	if err := c.validateRewards(); err != nil {
		return err
	}
	if err := c.validateRollouts(); err != nil {
		return err
	}
	if err := c.validatePipeline(); err != nil {
		return err
	}
	if err := c.validateData(); err != nil {
		return err
	}
	return c.validateOptimizer()
}

// ofRead tells that a value is what a record says of a model that was read, which a new one may not have: a kind that none is made of, 0 for what its family
// has no use for.
func (c *Config) ofRead(key string) bool {
	m := c.Model
	none, sized := map[string]bool{
		"model.layers": m.Layers == 0, "model.heads": m.Heads == 0, "model.width": m.Width == 0, "model.rope_theta": m.RopeTheta == 0,
	}[key]
	return m.From != "" && (sized && none || key == "model.kind" && model.Reads(m.Kind))
}
