package tuning

import (
	"fmt"
	"math"
	"slices"

	"gputrain/internal/formats"
	"gputrain/run/runfile"
)

// A Method is a way to tune, which the form of the rows asks for.
type Method struct {
	Name   string
	Form   string  // of its rows (model.Loss.Form); "": documents and conversations
	Things string  // what a row is called, in the plural
	Each   int     // sequences that a row makes; 0: windows hold as many rows as fit
	Least  int     // rows of an update, where there are not many
	Most   int     // and at most
	Factor float64 // of the rate of conversations

	keys func(f Facts) []Key // what it sets besides
	text func(f inForce) string
}

// Methods are all of them, the first for rows of no form of their own. Rates of adapters are a tenth of those of conversations, as those of whole models are
// (1e-6 of 1e-5 and less); beta is published as 0.1.
var Methods = []Method{
	{Name: "sft", Things: "conversations", Least: 4, Most: 16, Factor: 1},
	{
		Name: "dpo", Form: formats.Pairs, Things: "pairs", Each: 2, Least: 4, Most: 16, Factor: 0.1,
		keys: func(Facts) []Key { return []Key{key("preference.loss", "sigmoid"), key("preference.beta", 0.1)} },
	},
	{
		Name: "kto", Form: formats.Labelled, Things: "rows", Each: 1, Least: 8, Most: 32, Factor: 0.1,
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
			return fmt.Sprintf("; %d good rows of weight %g, %d bad ones of weight %g", f.facts.Good, weight(p.Desirable), f.facts.Bad, weight(p.Undesirable))
		},
	},
}

// MethodOf is the method of rows of a form.
func MethodOf(form string) Method {
	return Methods[max(0, slices.IndexFunc(Methods, func(m Method) bool { return m.Form == form }))]
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
	text := fmt.Sprintf("%s on %s: preference.loss %s", m.Name, m.Things, f.run.Preference.Loss)
	if f.run.Preference.Loss != runfile.New().Preference.Loss && f.run.Objective().Row().Reads("beta") {
		text += fmt.Sprintf(", beta %g", f.run.Preference.Beta)
	}
	if m.text != nil {
		text += m.text(f)
	}
	return text
}
