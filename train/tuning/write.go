package tuning

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Choice is a line for people, and what the run file says for it.
type Choice struct {
	Text string
	Keys []Key
}

// Key is a key of the run file with its value in YAML.
type Key struct{ Name, Value string }

// key is one with a number, a text or a list.
func key(name string, value any) Key {
	text, err := json.Marshal(value) // JSON is YAML
	if err != nil {
		panic(err) // texts and numbers have JSON
	}
	return Key{name, string(text)}
}

// Choices are all, in the order in which they are told.
func (r Recipe) Choices() []Choice {
	f := r.facts
	return []Choice{
		r.adapters(),
		{fmt.Sprintf("base       %s: %s", r.Base, r.whyBase()), []Key{key("model.base", r.Base)}},
		{fmt.Sprintf("window     %d tokens, which %s", r.Context, r.whyContext()), []Key{key("model.context", r.Context), key("data.long", "keep_start")}},
		{fmt.Sprintf("batch      %d x %d windows, about %d conversations an update; %s", r.Batch, r.Accumulate, r.conversations(), again[r.Recompute]), []Key{
			key("train.batch", r.Batch), key("train.accumulate", r.Accumulate), key("train.recompute", r.Recompute),
		}},
		{fmt.Sprintf("rate       %.2g down to %.2g, %s", r.Rate, r.RateEnd(), r.whyRate()), []Key{
			key("optimizer.name", r.Optimizer), key("optimizer.learning_rate", r.Rate), {"optimizer.schedule", fmt.Sprintf(
				"{type: cosine, warmup_steps: %d, learning_rate_end: %.3g}", r.Warmup, r.RateEnd())}, key("optimizer.weight_decay", 0),
		}},
		r.length(),
		{fmt.Sprintf("held out   %d conversations, evaluated every %d steps; the best checkpoint is kept", f.Held, r.Every), []Key{
			key("train.eval_every", r.Every), key("train.save_every", r.Every), key("train.sample_tokens", r.Answer), key("train.temperature", 0),
		}},
	}
}

// whyRate says what the rate suits.
func (r Recipe) whyRate() string {
	if r.facts.Wanted.Rate > 0 {
		return "as wanted"
	}
	why := fmt.Sprintf("as suits adapters on a model %d wide", r.facts.Model.Width)
	if r.Optimizer != adamw {
		why += fmt.Sprintf(" with %s: %.2g x adamw's, as for new models", r.Optimizer, ofAdamW(r.Optimizer))
	}
	return why
}

// length says how long it trains.
func (r Recipe) length() Choice {
	if r.Epochs == 0 {
		return Choice{fmt.Sprintf("steps      %d: as wanted", r.Steps), []Key{key("train.steps", r.Steps)}}
	}
	return Choice{fmt.Sprintf("steps      %d: the conversations %s", r.Steps, times(r.Epochs)), []Key{key("data.epochs", r.Epochs)}}
}

// adapters says which adapters are trained.
func (r Recipe) adapters() Choice {
	w := r.facts.Wanted
	if w.From != "" {
		return Choice{Text: "adapters   those of " + w.From}
	}
	target := []string{"all-linear"}
	on := "all linear layers"
	if len(w.Target) > 0 {
		target, on = w.Target, strings.Join(w.Target, ", ")
	}
	return Choice{fmt.Sprintf("adapters   rank %d on %s, for %d conversations to learn", r.Rank, on, len(r.facts.Lengths)), []Key{
		key("lora.rank", r.Rank), key("lora.alpha", 2*r.Rank), key("lora.target", target),
	}}
}

// again says what is computed again.
var again = map[string]string{
	"none": "nothing is computed again", "attention": "attention is computed again, to fit", "layers": "layers are computed again, to fit", "auto": "the run says what is computed again",
}

// whyContext says what a window holds.
func (r Recipe) whyContext() string {
	if r.Cut > 0 {
		return fmt.Sprintf("cuts %d of %d conversations", r.Cut, len(r.facts.Lengths))
	}
	return fmt.Sprintf("holds the longest conversation, of %d", slices.Max(r.facts.Lengths))
}

// conversations is how many an update has.
func (r Recipe) conversations() int {
	return max(1, r.Batch*r.Accumulate*r.Context*len(r.facts.Lengths)/max(1, r.tokens()))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// whyBase says why the base is kept as it is.
func (r Recipe) whyBase() string {
	stored := r.facts.Model.Stored
	switch {
	case r.facts.Wanted.Base != "":
		return "as wanted"
	case r.Base == stored:
		return "as it is stored, so nothing is rounded"
	case r.Base == "f32":
		return "nothing is rounded, and it fits"
	}
	return fmt.Sprintf("rounded, because %s does not fit", r.facts.bases()[0])
}

// sections is their order in the run file.
var sections = []string{"model", "lora", "data", "optimizer", "train"}

// Given is what is tuned, and with what.
type Given struct {
	Model      string   // its directory
	Rows       []string // files of conversations
	Validation float64  // the share of them that is held out
	LastOnly   bool     // of each conversation only the last answer learns
}

// Write writes the run file before anything is chosen.
func (g Given) Write(w io.Writer) error { return write(w, g.choice()) }

func (g Given) choice() Choice {
	keys := []Key{key("model.from", g.Model), key("data.jsonl", g.Rows), key("data.validation", g.Validation)}
	if g.LastOnly {
		keys = append(keys, key("data.learn_last", true))
	}
	return Choice{Keys: keys}
}

// Write writes the run file that says the same of what is given. Choices stand above their keys.
func (r Recipe) Write(w io.Writer, g Given) error {
	return write(w, append([]Choice{g.choice()}, r.Choices()...)...)
}

// head is what a run file of choices begins with.
const head = "# How gputrain tune trains this model. The same command resumes with these choices; --set changes one.\n"

// Wrote tells a run file of choices from others by how it begins.
func Wrote(text []byte) bool { return bytes.HasPrefix(text, []byte(head)) }

func write(w io.Writer, choices ...Choice) error {
	var b strings.Builder
	b.WriteString(head)
	for _, section := range sections {
		begun := false
		for _, c := range choices {
			told := c.Text == ""
			for _, k := range c.Keys {
				name, ok := strings.CutPrefix(k.Name, section+".")
				if !ok {
					continue
				}
				if !begun {
					fmt.Fprintf(&b, "%s:\n", section)
				}
				if !told {
					fmt.Fprintf(&b, "  # %s\n", strings.Join(strings.Fields(c.Text), " "))
				}
				begun, told = true, true
				fmt.Fprintf(&b, "  %s: %s\n", name, k.Value)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
