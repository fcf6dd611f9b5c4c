package tuning

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/internal/formats"
	"gputrain/internal/suggest"
	"gputrain/run/runfile"
)

// A Method is a way to tune.
type Method struct {
	Name   string
	Form   string  // of its rows (model.Loss.Form); "": documents and conversations
	Wants  string  // of a row, for a sentence
	Things string  // what a row is called, in the plural
	Each   int     // sequences that a row makes; 0: windows hold as many rows as fit
	Draws  bool    // the model draws them, of prompts
	Head   bool    // the model gets another head, and writes no text
	Whole  bool    // an update is one batch
	Least  int     // rows of an update, where there are not many
	Most   int     // and at most
	Rate   float64 // of adapters on a model 4,096 wide, with AdamW
	Power  float64 // of 4,096 / width, by which narrower ones take more
	Passes int     // over the rows, where that is enough steps

	fits func(r Row) fit
	key  string              // that names what is learned; "": nothing does
	keys func(f Facts) []Key // what it sets besides
	text func(f inForce) string
}

// fit says how well a method goes with a row.
type fit int

const (
	refused fit = iota // it cannot read it
	reads              // it can, where it is asked for
	fitting            // the row may be meant for it
	told               // the row tells that it is meant
)

// Row are the values of a row of a file.
type Row map[string]json.RawMessage

// has tells whether all of some keys have a value.
func (r Row) has(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return len(r[key]) == 0 || string(r[key]) == "null" })
}

// any tells whether one of some keys has a value.
func (r Row) any(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return r.has(key) })
}

// said tells whether a value is one of some.
func (r Row) said(key string, values ...string) bool {
	return slices.Contains(values, string(r[key]))
}

// speaks tells whether a row is a conversation or a text.
func (r Row) speaks() bool {
	return r.any("messages", "conversations", "text", "input_ids", "tokens") || r.has("prompt", "completion") || r.has("instruction", "output")
}

// judged tells whether a row has one completion that is good or bad, and whether it says so by true and false.
func (r Row) judged() (is, clearly bool) {
	for _, key := range []string{"label", "kto_tag"} {
		clearly = clearly || r.said(key, "true", "false")
		is = is || r.said(key, "true", "false", "1", "0", "1.0", "0.0")
	}
	return is && r.has("prompt", "completion"), clearly
}

// Rates of adapters are ten times those of whole models, and published as: 2e-4 for conversations; a tenth of that for pairs and labels, as those of whole
// models are (1e-6 of 1e-5 and less); 1e-4 for heads; for rollouts 5e-6 to 1e-4 from 8B to 0.6B parameters, which is 2.5e-5 x 4096 / width, and 2e-3 for a
// model 64 wide. Losses, their numbers and the sizes of groups are as published.

// Methods are all of them, the first for rows of no form of their own.
var Methods = []Method{
	{
		Name: "sft", Wants: "conversations (messages, or prompt and completion) or texts", Things: "conversations", Least: 4, Most: 16, Rate: 2e-4, Power: 0.5, Passes: 3,
		fits: func(r Row) fit {
			judged, _ := r.judged()
			switch {
			case !r.speaks() || judged:
				return refused
			case r.any("chosen", "rejected") || r.has("label"):
				return reads
			}
			return told
		},
	},
	{
		Name: "dpo", Form: formats.Pairs, Wants: "prompt, chosen and rejected", Things: "pairs", Each: 2, Least: 4, Most: 16, Rate: 2e-5, Power: 0.5, Passes: 3,
		fits: pairs(told), key: "preference.loss",
		keys: func(Facts) []Key { return []Key{key("preference.loss", "sigmoid"), key("preference.beta", 0.1)} },
		text: beta,
	},
	{
		Name: "kto", Form: formats.Labelled, Wants: "prompt, completion and label (true: good, or false)", Things: "rows", Each: 1, Least: 8, Most: 32,
		Rate: 2e-5, Power: 0.5, Passes: 3, key: "preference.loss",
		fits: func(r Row) fit {
			switch judged, clearly := r.judged(); {
			case !judged:
				return refused
			case !clearly:
				return fitting
			}
			return told
		},
		keys: func(f Facts) []Key {
			desirable, undesirable := Weights(f.Good, f.Bad)
			return []Key{key("preference.loss", "kto"), key("preference.beta", 0.1), key("preference.desirable_weight", desirable), key("preference.undesirable_weight", undesirable)}
		},
		text: func(f inForce) string {
			weight := func(v *float64) float64 {
				if v == nil {
					return 1
				}
				return *v
			}
			p := f.run.Preference
			return beta(f) + fmt.Sprintf("; %d good rows of weight %.2g, %d bad ones of weight %.2g", f.facts.Good, weight(p.Desirable), f.facts.Bad, weight(p.Undesirable))
		},
	},
	{
		Name: "grpo", Form: formats.Prompts, Wants: "prompt, and columns for rewards (--reward)", Things: "prompts", Each: 8, Draws: true, Least: 8, Most: 32,
		Rate: 2.5e-5, Power: 1, Passes: 1, key: "rollout.loss",
		fits: func(r Row) fit {
			switch {
			case !r.has("prompt"):
				return refused
			case r.any("completion", "chosen", "rejected", "messages"):
				return reads
			}
			return told
		},
		keys: func(Facts) []Key { return []Key{key("rollout.loss", "dapo"), key("rollout.epsilon_high", 0.28)} },
	},
	{
		Name: "reward", Form: formats.Ranked, Wants: "prompt, chosen and rejected", Things: "pairs", Each: 2, Head: true, Least: 4, Most: 32, Rate: 1e-4, Power: 0.5, Passes: 1,
		fits: pairs(reads), key: "head.objective",
		keys: func(Facts) []Key { return []Key{key("head.objective", "reward")} },
	},
	{
		Name: "classes", Form: formats.Classes, Wants: "text (or messages, or prompt and completion) and label (a name or a number)", Things: "rows", Each: 1, Head: true,
		Least: 8, Most: 32, Rate: 1e-4, Power: 0.5, Passes: 3, key: "head.objective",
		fits: func(r Row) fit {
			judged, _ := r.judged()
			switch {
			case !r.has("label") || r.said("label", "true", "false") || !r.any("text", "messages", "input_ids", "tokens") && !r.has("prompt", "completion"):
				return refused
			case judged:
				return fitting
			}
			return told
		},
		keys: func(Facts) []Key { return []Key{key("head.objective", "classes")} },
	},
	{
		Name: "embed", Form: formats.Queries, Wants: "query, positive and perhaps negatives", Things: "rows", Each: 2, Head: true, Whole: true, Least: 16, Most: 32,
		Rate: 1e-4, Power: 0.5, Passes: 1, key: "head.objective",
		fits: func(r Row) fit {
			if r.has("query", "positive") {
				return told
			}
			return refused
		},
		keys: func(f Facts) []Key {
			return []Key{key("head.objective", "embed"), key("head.pooling", "last"), key("head.temperature", 0.05), key("head.negatives", f.Negatives)}
		},
		text: func(f inForce) string {
			h := f.run.Head
			return fmt.Sprintf(", pooling %s, temperature %g, %d negatives a row", h.Pooling, h.Temperature, h.Negatives)
		},
	},
}

// pairs fits rows of them.
func pairs(as fit) func(r Row) fit {
	return func(r Row) fit {
		if r.has("chosen", "rejected") {
			return as
		}
		return refused
	}
}

// beta says the strength of a loss that reads one.
func beta(f inForce) string {
	if f.run.Preference.Loss == runfile.New().Preference.Loss || !f.run.Objective().Row().Reads("beta") {
		return ""
	}
	return fmt.Sprintf(", beta %g", f.run.Preference.Beta)
}

// MethodOf is the method of rows of a form.
func MethodOf(form string) Method {
	return Methods[max(0, slices.IndexFunc(Methods, func(m Method) bool { return m.Form == form }))]
}

// Names are those of all methods.
func Names() (names []string) {
	for _, m := range Methods {
		names = append(names, m.Name)
	}
	return names
}

// Named is the method of a name, for rows like this one.
func (r Row) Named(name string) (Method, error) {
	i := slices.Index(Names(), name)
	if i < 0 {
		return Method{}, fmt.Errorf("found %q, wanted %s%s", name, suggest.Or(Names()), suggest.DidYouMean(name, Names()))
	}
	if m := Methods[i]; m.fits(r) != refused {
		return m, nil
	}
	return Method{}, fmt.Errorf("found rows with %s, wanted rows with %s", r.keys(), Methods[i].Wants)
}

// Method is the one that a row tells. One that none fits is a conversation's to refuse.
func (r Row) Method() (Method, error) {
	for _, least := range []fit{told, fitting} {
		var some []string
		for _, m := range Methods {
			if m.fits(r) >= least {
				some = append(some, m.Name)
			}
		}
		switch len(some) {
		case 0:
		case 1:
			return r.Named(some[0])
		default:
			return Method{}, fmt.Errorf("found rows with %s, which several methods take, wanted one of them: --method %s", r.keys(), suggest.Or(some))
		}
	}
	return Methods[0], nil
}

// keys are those of a row, for a sentence.
func (r Row) keys() string {
	var names []string
	for name := range r {
		if r.has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, ", "), "nothing")
}

// In is a method as a run file has it: how many sequences a row makes.
func (m Method) In(run *runfile.Config) Method {
	switch {
	case m.Draws:
		m.Each = run.Rollout.Samples
	case m.Form == formats.Queries:
		m.Each = 2 + run.Head.Negatives
	}
	return m
}

// Weights are those of good and of bad rows with which all good ones together weigh as much as all bad ones, or up to a third more: 1, but for the class
// that is too small.
func Weights(good, bad int) (desirable, undesirable float64) {
	const middle = 1.15 // two digits of a weight leave it within
	two := func(v float64) float64 {
		digit := math.Pow(10, math.Floor(math.Log10(v))-1)
		return math.Round(v/digit) * digit
	}
	switch ratio := float64(good) / float64(bad); {
	case good == 0 || bad == 0 || ratio >= 1 && ratio <= 4./3:
		return 1, 1
	case ratio < 1:
		return two(middle / ratio), 1
	default:
		return 1, two(ratio / middle)
	}
}

// method says what is learned from rows of a form of their own.
func (f inForce) method() string {
	m := f.facts.Method
	if m.Form == "" {
		return ""
	}
	text := fmt.Sprintf("%s on %s: %s %v", m.Name, m.Things, m.key, f.run.Value(m.key))
	if m.text != nil {
		text += m.text(f)
	}
	return text
}
