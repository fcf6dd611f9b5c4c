package runfile

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/data"
	"gputrain/optim"
	"gputrain/shaders/suggest"
)

// A rule is what a value has to be beyond its type: what Validate holds it to, and what Schema tells editors. That of a list is for each of
// its items, that of a value that may be null for any other.
type rule interface {
	check(v reflect.Value) (wanted string) // "" where v keeps it
	tell(s schema)
}

// rules are those of the keys; of a field of a list's structs by the key of the list. What keys say together is for validatePipeline,
// validateData and validateOptimizer.
var rules = map[string]rule{
	"model.allow_missing": expression{},
	"model.kind":          oneOf{"gpt2", "llama"},
	"model.layers":        least(1),
	"model.heads":         least(1),
	"model.kv_heads":      least(0),
	"model.width":         least(1),
	"model.intermediate":  least(0),
	"model.context":       least(1),
	"model.vocab":         least(0),
	"model.dropout":       atMost(0.999),
	"model.rope_theta":    atMost(math.MaxFloat64),

	"model.quantize.mode":  oneOf(quantizeModes),
	"model.quantize.bits":  least(0),
	"model.quantize.group": least(0),
	"model.quantize.match": expression{},

	"data.mixture.weight": positive{},
	"data.mixture_end":    oneOf(data.Ends),
	"data.tokens":         oneOf{"bytes", "u16", "u32"},
	"data.eos":            least(-1),
	"data.packing":        oneOf(data.Packings),
	"data.long":           oneOf(data.Longs),
	"data.validation":     atMost(0.9),
	"data.epochs":         between{0, 1_000_000},
	"data.prefetch":       between{0, data.MaxPrefetch},
	"data.timeout":        form{durations, isDuration, durationForm},

	"optimizer.name":                       oneOf(optim.Names()),
	"optimizer.learning_rate":              atMost(1e6),
	"optimizer.schedule.type":              oneOf(optim.ScheduleNames()),
	"optimizer.schedule.warmup_steps":      least(-1),
	"optimizer.schedule.steps":             least(0),
	"optimizer.schedule.learning_rate_end": atMost(1e6),
	"optimizer.schedule.exponent":          atMost(100),
	"optimizer.weight_decay":               atMost(1e6),
	"optimizer.decay_mask":                 expression{},
	"optimizer.rates.match":                expression{},
	"optimizer.rates.multiplier":           atMost(1e6),
	"optimizer.clip_grad":                  positive{},
	"optimizer.numerics":                   oneOf{string(optim.Stable), string(optim.EFormer)},

	"train.steps":             least(1),
	"train.batch":             least(1),
	"train.accumulate":        least(1),
	"train.eval_every":        least(0),
	"train.eval_tokens":       least(0),
	"train.save_interval":     form{durations, isDuration, durationForm},
	"train.keep":              least(1),
	"train.keep_best":         least(1),
	"train.sample_every":      least(0),
	"train.sample_tokens":     least(0),
	"train.temperature":       atMost(100),
	"train.top_k":             least(0),
	"train.histogram_every":   least(0),
	"train.histogram_match":   expression{},
	"train.log_every":         least(1),
	"train.nan_patience":      least(1),
	"train.spike_loss":        atMost(1e6),
	"train.spike_grad_norm":   atMost(1e6),
	"train.spike_update_norm": atMost(1e6),
	"train.spike_window":      between{2, 1 << 20},
	"train.spike_patience":    least(1),
	"train.time_limit":        form{durations, isDuration, durationForm},
	"train.memory_limit":      form{sizes, isSize, sizeForm},

	"pipeline.stages":       least(1),
	"pipeline.adapters":     least(0),
	"pipeline.schedule":     oneOf{"gpipe", "1f1b", Interleaved},
	"pipeline.microbatches": least(1),
	"pipeline.chunks":       least(0),
	"pipeline.ahead":        least(0),
	"pipeline.devices":      oneOf{"adapter", "stage"},
	"pipeline.rules.match":  expression{},
	"pipeline.rules.stage":  least(0),

	"device.texels": oneOf{"auto", "off", "reuse", "all", "force"},
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
	s["minimum"] = 0
	if r < math.MaxFloat64 {
		s["maximum"] = float64(r)
	}
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

// oneOf lists the texts that there are.
type oneOf []string

func (r oneOf) check(v reflect.Value) string {
	if slices.Contains(r, v.String()) {
		return ""
	}
	return "one of " + strings.Join(r, ", ") + suggest.DidYouMean(v.String(), r)
}

func (r oneOf) tell(s schema) { s["enum"] = []string(r) }

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

// checkRules holds a value and all that is in it to the rules below key; at is the key with the places in lists.
func (c *Config) checkRules(key, at string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if err := c.checkRules(key, at, v.Elem()); err != nil {
			return fmt.Errorf("%w, or null", err)
		}
		return nil
	case reflect.Slice:
		for i := range v.Len() {
			if err := c.checkRules(key, fmt.Sprintf("%s[%d]", at, i), v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Struct:
		for i := range v.NumField() {
			name := "." + keyOf(v.Type().Field(i))
			if err := c.checkRules(key+name, at+name, v.Field(i)); err != nil {
				return err
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
	return c.invalid(at, found, wanted)
}
