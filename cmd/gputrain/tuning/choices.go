package tuning

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/runfile"
	"gputrain/run/setup"
)

// A Choice is a line for people, and what the run file says for it.
type Choice struct {
	Text string
	Keys []Key
}

// inForce tells choices by the run file in force: a recipe, and what the user has set over it.
type inForce struct {
	Recipe
	run *runfile.Config
}

// lines are what is told, each with the keys that it tells.
var lines = []struct {
	name string
	text func(inForce) string
	keys []string
}{
	{"method", inForce.method, []string{
		"preference.loss", "preference.beta", "preference.desirable_weight", "preference.undesirable_weight", "rollout.loss", "rollout.epsilon_high",
		"head.objective", "head.pooling", "head.temperature", "head.negatives",
	}},
	{"rollouts", inForce.rollouts, []string{"rollout.samples", "rollout.tokens", "rollout.temperature", "rollout.rows", "rollout.mask_truncated_completions"}},
	{"rewards", inForce.rewards, []string{"rewards"}},
	{"adapters", inForce.adapters, []string{"lora.from", "lora.rank", "lora.alpha", "lora.target", "lora.layers"}},
	{"base", inForce.base, []string{"model.base"}},
	{"window", inForce.window, []string{"model.context", "data.long"}},
	{"batch", inForce.batch, []string{"train.batch", "train.accumulate", "train.recompute"}},
	{"rate", inForce.rate, []string{"optimizer.name", "optimizer.learning_rate", "optimizer.weight_decay"}},
	{"schedule", inForce.schedule, []string{
		"optimizer.schedule.type", "optimizer.schedule.warmup_steps", "optimizer.schedule.learning_rate_end", "optimizer.schedule.learning_rate_end_ratio",
	}},
	{"steps", inForce.length, []string{"train.steps", "data.epochs"}},
	{"held out", inForce.held, []string{"data.validation", "train.eval_every", "train.save_every"}},
	{"early stop", inForce.early, []string{"train.patience"}},
	{"answers", inForce.answers, []string{"train.sample_tokens", "train.temperature", "train.ask"}},
}

// unsaid are keys whose values are told before the choices.
var unsaid = []string{"model.from", "data.jsonl", "data.held", "data.learn_last"}

// Choices are all, in the order in which they are told: as they are in force in a run file of this recipe, whose other keys stand in lines of their own.
// What nobody has chosen is no key of theirs.
func (r Recipe) Choices(run *runfile.Config) []Choice {
	values, names := map[string]Key{}, []string{}
	for _, s := range setup.Settings(run, nil) {
		if run.Given(s.Key) {
			values[s.Key] = key(s.Key, s.Value)
			names = append(names, s.Key)
		}
	}
	told := map[string]bool{}
	take := func(text string, keys ...string) (c Choice) {
		c.Text = text
		for _, k := range keys {
			if value, ok := values[k]; ok {
				c.Keys = append(c.Keys, value)
			}
			told[k] = true
		}
		return c
	}
	all := []Choice{take("", unsaid...)}
	for _, l := range lines {
		if text := l.text(inForce{r, run}); text != "" {
			all = append(all, take(fmt.Sprintf("%-10s %s", l.name, text), l.keys...))
		}
	}
	for _, k := range names {
		if !told[k] {
			all = append(all, take(fmt.Sprintf("%-10s %s %s, as wanted", "besides", k, values[k].Value), k))
		}
	}
	return all
}

// wanted tells that the user has named a value.
func (f inForce) wanted(key string) bool { return Named(f.run, key) }

// adapters says which adapters are trained.
func (f inForce) adapters() string {
	l := f.run.LoRA
	if l.From != "" {
		return "those of " + l.From
	}
	on := strings.Join(l.Target, ", ")
	switch {
	case len(l.Target) == 0:
		on = "queries and values"
	case slices.Equal(l.Target, []string{model.AllLinear}):
		on = "all linear layers"
	}
	if len(l.Layers) > 0 {
		on += " of layers " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(l.Layers)), ", "), "[]")
	}
	why := fmt.Sprintf("for %d %s to learn", f.facts.learned(), f.facts.Method.Things)
	if f.wanted("lora.rank") {
		why = "as wanted"
	}
	alpha := l.Alpha
	if alpha == 0 {
		alpha = 2 * float64(l.Rank)
	}
	return fmt.Sprintf("rank %d, alpha %g on %s, %s", l.Rank, alpha, on, why)
}

// base says why the base is kept as it is.
func (f inForce) base() string {
	base, stored := f.run.Model.Base, f.facts.Model.Stored
	switch {
	case f.wanted("model.base"):
		return base + ": as wanted"
	case base == stored:
		return base + ": as it is stored, so nothing is rounded"
	case base == "f32":
		return base + ": nothing is rounded, and it fits"
	}
	return fmt.Sprintf("%s: rounded, because %s does not fit", base, f.facts.bases()[0])
}

// window says what a window holds.
func (f inForce) window() string {
	text := fmt.Sprintf("%d tokens, which ", f.run.Model.Context)
	layout := f.run.Data.Layout.WithDefaults()
	switch {
	case layout.Packing == data.PackStream:
		return text + f.facts.Method.Things + " fill one after the other"
	case f.facts.Method.Head:
		return text + fmt.Sprintf("holds the longest row, of %d", slices.Max(f.facts.Lengths))
	case f.facts.Method.Draws:
		return text + fmt.Sprintf("holds the longest prompt, of %d, and a completion", slices.Max(f.facts.Lengths)-f.Tokens)
	case f.facts.Method.Form != "":
		return text + fmt.Sprintf("holds the longest prompt with its completion, of %d", slices.Max(f.facts.Lengths))
	case f.Cut == 0:
		return text + fmt.Sprintf("holds the longest conversation, of %d", slices.Max(f.facts.Lengths))
	}
	how := map[string]string{data.LongKeepStart: "cuts", data.LongKeepEnd: "cuts the beginning of", data.LongSplit: "divides"}[layout.Long]
	return text + fmt.Sprintf("%s %d of %d conversations", how, f.Cut, len(f.facts.Lengths))
}

// again says what is computed again.
var again = map[string]string{
	"none": "nothing is computed again", "attention": "attention is computed again, to fit", "layers": "layers are computed again, to fit",
	"auto": "the run says what is computed again",
}

// batch says what an update has.
func (f inForce) batch() string {
	t := f.run.Train
	return fmt.Sprintf("%d x %d windows, about %d %s an update; %s",
		t.Batch, t.Accumulate, f.rows(t.Batch*t.Accumulate), f.facts.Method.Things, again[t.Recompute])
}

// rate says what the rate suits.
func (f inForce) rate() string {
	o := f.run.Optimizer
	why := fmt.Sprintf("as suits adapters on a model %d wide", f.facts.Model.Width)
	if m := f.facts.Method; m.Form != "" {
		why += " and " + m.Name
	}
	switch {
	case f.wanted("optimizer.learning_rate"):
		why = "as wanted"
	case o.Name != adamw:
		why += fmt.Sprintf(": %.2g x adamw's, as for new models", ofAdamW(o.Name))
	}
	if f.wanted("optimizer.weight_decay") {
		why += fmt.Sprintf("; weight decay %g", o.WeightDecay)
	}
	return fmt.Sprintf("%.2g with %s, %s", o.LearningRate, o.Name, why)
}

// schedule says how the rate goes.
func (f inForce) schedule() string {
	o := f.run.Optimizer
	text := o.Schedule.Type
	if text != "constant" {
		text += fmt.Sprintf(", down to %.2g", o.RateEnd())
	}
	return text + fmt.Sprintf(", after %d steps up to the rate", o.Schedule.Warmup(f.steps()))
}

// steps is how many there are.
func (f inForce) steps() int64 {
	if f.run.Data.Epochs > 0 {
		return f.Steps
	}
	return f.run.Train.Steps
}

// length says how long it trains.
func (f inForce) length() string {
	switch n := f.run.Data.Epochs; n {
	case 0:
		return fmt.Sprintf("%d: as wanted", f.steps())
	case 1:
		return fmt.Sprintf("%d: the %s once", f.steps(), f.facts.Method.Things)
	default:
		return fmt.Sprintf("%d: the %s %d times", f.steps(), f.facts.Method.Things, n)
	}
}

// held says what is held out, and what for.
func (f inForce) held() string {
	t := f.run.Train
	saved := "every " + t.SaveEvery.String() + " steps"
	switch {
	case len(t.SaveEvery) == 0:
		saved = "at the end"
	case len(t.SaveEvery) > 1:
		saved = t.SaveEvery.String()
	}
	evaluated := "at the end"
	if t.EvalEvery > 0 {
		evaluated = fmt.Sprintf("every %d steps", t.EvalEvery)
	}
	those := fmt.Sprintf("%d %s", f.facts.Held, f.facts.Method.Things)
	if n := len(f.run.Data.Held); n > 0 {
		if those += " of " + filepath.Base(f.run.Data.Held[0]); n > 1 {
			those += fmt.Sprintf(" and %d more", n-1)
		}
	}
	switch {
	case f.facts.Held == 0:
		return "none, so nothing is evaluated; saved " + saved
	case evaluated == saved:
		return fmt.Sprintf("%s, evaluated %s; the best checkpoint is kept", those, evaluated)
	}
	return fmt.Sprintf("%s, evaluated %s, saved %s; the best checkpoint is kept", those, evaluated, saved)
}

// early says when it ends before all steps are made.
func (f inForce) early() string {
	what := "lower loss"
	if f.facts.Method.Draws {
		what = "higher reward"
	}
	switch n := f.run.Train.Patience; {
	case f.facts.Held == 0 || f.run.Train.EvalEvery == 0:
		return ""
	case n == 0:
		return "never (train.patience)"
	default:
		return fmt.Sprintf("after %d evaluations in a row without a %s on what is held out", n, what)
	}
}

// answers says what is asked of the model.
func (f inForce) answers() string {
	s, asked := f.run.Train.Sample, len(f.run.Train.Ask)
	switch {
	case f.facts.Method.Head:
		return "none: the model writes no text; gputrain score asks it"
	case asked > 0:
		return fmt.Sprintf("of at most %d tokens at temperature %g, before, at evaluations and after, to --ask (%d)", s.Tokens, s.Temperature, asked)
	case f.facts.Method.Draws:
		return fmt.Sprintf("to %d prompts that are held out, with their rewards, before and after", f.facts.Held)
	case s.Tokens == 0:
		return "none are shown (train.sample_tokens)"
	case f.facts.Held == 0:
		return fmt.Sprintf("none are shown: nothing is held out; a sample of %d tokens at temperature %g", s.Tokens, s.Temperature)
	}
	return fmt.Sprintf("of at most %d tokens at temperature %g, to questions that are held out, before and after", s.Tokens, s.Temperature)
}
