package tuning

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/reward"
	"gputrain/run/runfile"
)

// Key is a key of the run file with its value in YAML.
type Key struct{ Name, Value string }

// key is one with what JSON can hold.
func key(name string, value any) Key {
	text, err := json.Marshal(value) // JSON is YAML
	if err != nil {
		panic(err) // values of keys have JSON
	}
	return Key{name, string(text)}
}

// keys are what a recipe says of a run file.
func (r Recipe) keys() []Key {
	w := r.facts.Wanted
	all := []Key{
		key("model.base", r.Base), key("model.context", r.Context),
		key("train.batch", r.Batch), key("train.accumulate", r.Accumulate), key("train.recompute", r.Recompute),
		key("optimizer.name", r.Optimizer), key("optimizer.learning_rate", r.Rate), key("optimizer.schedule.type", "cosine"),
		key("optimizer.schedule.warmup_steps", r.Warmup), key("optimizer.schedule.learning_rate_end_ratio", endRatio), key("optimizer.weight_decay", 0),
		key("train.eval_every", r.Every), key("train.save_every", r.Every), key("train.sample_tokens", r.Answer), key("train.temperature", 0),
	}
	if p := r.patience(); p > 0 {
		all = append(all, key("train.patience", p))
	}
	if w.From == "" {
		all = append(all, r.adapters()...)
	}
	if r.facts.Method.keys != nil {
		all = append(all, r.facts.Method.keys(r.facts)...)
	}
	if w.Packing != data.PackStream && r.facts.Method.Form == "" { // which cuts nothing
		all = append(all, key("data.long", data.LongKeepStart))
	}
	if r.facts.Method.Draws {
		all = append(all, key("rollout.tokens", r.Tokens), key("rollout.rows", r.Rows))
	}
	if r.Epochs > 0 {
		return append(all, key("data.epochs", r.Epochs))
	}
	return append(all, key("train.steps", r.Steps))
}

// adapters are new ones.
func (r Recipe) adapters() []Key {
	return []Key{key("lora.rank", r.Rank), key("lora.alpha", 2*r.Rank), key("lora.target", []string{model.AllLinear})}
}

// Given is what is tuned, and with what.
type Given struct {
	Model      string        // its directory
	Rows       []string      // files of conversations
	Held       []string      // files of those that are held out; none: a share is
	From       string        // adapters that training goes on with; "": new ones
	Validation float64       // the share of them that is held out
	Method     Method        // Methods[0] where it is zero
	LastOnly   bool          // of each conversation only the last answer learns
	Negatives  int           // of a row of queries, at most
	Rewards    []reward.Spec // that are typed, besides what --set has
}

func (g Given) keys() []Key {
	keys := []Key{key("model.from", g.Model), key("data.jsonl", g.Rows)}
	if len(g.Held) > 0 {
		keys = append(keys, key("data.held", g.Held))
	} else {
		keys = append(keys, key("data.validation", g.Validation))
	}
	if g.From != "" {
		keys = append(keys, key("lora.from", g.From))
	}
	if g.Method.keys != nil {
		keys = append(keys, g.Method.keys(Facts{Negatives: g.Negatives})...)
	}
	if g.LastOnly {
		keys = append(keys, key("data.learn_last", true))
	}
	return keys
}

// File is the run file of choices.
const File = "tune.yaml"

// Origins of values until the file is written: arguments of the command, and what is chosen.
const (
	ofModel runfile.Origin = "MODEL"
	ofRows  runfile.Origin = "DATA"
	ofHeld  runfile.Origin = "--held"
	ofFrom  runfile.Origin = "--from"
	chosen  runfile.Origin = "chosen by tune"
)

var arguments = map[string]runfile.Origin{"model.from": ofModel, "data.jsonl": ofRows, "data.held": ofHeld, "lora.from": ofFrom}

// set lays what the user sets, and nothing checks it yet.
func (g Given) set(run *runfile.Config, environ, sets []string) error {
	if err := run.Environment(environ); err != nil {
		return err
	}
	for _, s := range sets {
		if err := run.Set(s); err != nil {
			return err
		}
	}
	if len(g.Rewards) > 0 && Named(run, "rewards") {
		return errors.New("tune: --reward: found rewards by --set, too, wanted one of them")
	}
	return LayRewards(run, g.Rewards)
}

// Set is a run file of what the user sets alone, not checked: what is given may make it whole.
func Set(g Given, environ, sets []string) (*runfile.Config, error) {
	run := runfile.New()
	return run, g.set(run, environ, sets)
}

// Config is the run file of what is given and of a recipe, nil for none yet, with what the user sets over it.
func Config(g Given, r *Recipe, environ, sets []string) (*runfile.Config, error) {
	keys := g.keys()
	if r != nil {
		keys = append(keys, r.keys()...)
	}
	run := runfile.New()
	for _, k := range keys {
		if err := run.Lay(k.Name, k.Value, cmp.Or(arguments[k.Name], chosen)); err != nil {
			return nil, err
		}
	}
	if err := g.set(run, environ, sets); err != nil {
		return nil, err
	}
	if each := g.Method.In(run).Each; r == nil && each > 1 { // they are yet to be chosen, and rows stay together
		for k, v := range map[string]int{"train.batch": each, "train.accumulate": 1} {
			if Named(run, k) {
				continue
			}
			if err := run.Lay(k, fmt.Sprint(v), chosen); err != nil {
				return nil, err
			}
		}
	}
	if r == nil && !run.LoRA.On() && !Named(run, "lora.rank") { // it is yet to be chosen
		r = &Recipe{Rank: 1}
		for _, k := range r.adapters() {
			if Named(run, k.Name) {
				continue
			}
			if err := run.Lay(k.Name, k.Value, chosen); err != nil {
				return nil, err
			}
		}
	}
	return run, run.Validate()
}

// WantedOf are the choices that the user has made in a run file of what is given.
func WantedOf(run *runfile.Config) (w Wanted) {
	w.From = run.LoRA.From // however it is said
	for key, lay := range map[string]func(){
		"rollout.tokens":          func() { w.Tokens = run.Rollout.Tokens },
		"lora.rank":               func() { w.Rank = run.LoRA.Rank },
		"model.base":              func() { w.Base = run.Model.Base },
		"model.context":           func() { w.Context = run.Model.Context },
		"train.batch":             func() { w.Batch = run.Train.Batch },
		"train.accumulate":        func() { w.Accumulate = run.Train.Accumulate },
		"train.recompute":         func() { w.Recompute = run.Train.Recompute },
		"train.steps":             func() { w.Steps = run.Train.Steps },
		"train.eval_every":        func() { w.Every, w.Unevaluated = run.Train.EvalEvery, run.Train.EvalEvery == 0 },
		"data.packing":            func() { w.Packing = run.Data.Layout.Packing },
		"optimizer.name":          func() { w.Optimizer = run.Optimizer.Name },
		"optimizer.learning_rate": func() { w.Rate = run.Optimizer.LearningRate },
		"data.epochs": func() {
			if w.Epochs = run.Data.Epochs; w.Epochs == 0 {
				w.Steps = run.Train.Steps
			}
		},
	} {
		if Named(run, key) {
			lay()
		}
	}
	return w
}

// Named tells that the user has named a value of a run file of choices.
func Named(run *runfile.Config, key string) bool {
	from := run.Origin(key)
	return !from.IsDefault() && from != chosen && from != arguments[key]
}

// head is what a run file of choices begins with.
const head = "# How gputrain tune trains this model. The same command resumes with these choices; --set changes one.\n"

// Wrote tells a run file of choices from others by how it begins.
func Wrote(text []byte) bool { return bytes.HasPrefix(text, []byte(head)) }

// Write writes the run file of choices, which stand above their keys.
func Write(w io.Writer, choices []Choice) error {
	text := map[string]string{} // by section
	grouped := map[string]bool{}
	for _, c := range choices {
		told := map[string]bool{"": c.Text == ""}
		for _, k := range c.Keys {
			section, name, _ := strings.Cut(k.Name, ".")
			value := k.Value
			if group, _, in := strings.Cut(name, "."); in {
				if name = group; grouped[section+"."+group] {
					continue
				}
				grouped[section+"."+group] = true
				value = groupOf(choices, section+"."+group+".")
			}
			indent := "  "
			if name == "" { // it stands in no section
				indent, name = "", section
			}
			if !told[""] && !told[section] {
				text[section] += fmt.Sprintf("%s# %s\n", indent, strings.Join(strings.Fields(c.Text), " "))
			}
			told[section] = true
			if indent == "" {
				text[section] += fmt.Sprintf("%s: %s\n", name, value)
				continue
			}
			text[section] += fmt.Sprintf("  %s: %s\n", name, value)
		}
	}
	var b strings.Builder
	b.WriteString(head)
	for k := range runfile.New().Values() { // in its order
		section, _, _ := strings.Cut(k, ".")
		if text[section] == "" {
			continue
		}
		if k != section {
			fmt.Fprintf(&b, "%s:\n", section)
		}
		b.WriteString(text[section])
		delete(text, section)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// groupOf are the keys that begin so, of all choices, as one value.
func groupOf(choices []Choice, prefix string) string {
	var all []string
	for _, c := range choices {
		for _, k := range c.Keys {
			if name, ok := strings.CutPrefix(k.Name, prefix); ok {
				all = append(all, name+": "+k.Value)
			}
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
}
