// Package tuning chooses how a model that is there is tuned to rows: the method, adapters, storage of the base, window, batch, rate and steps, from the
// sizes of the model, the lengths of the rows and the memory of the adapter. It opens no device: whoever asks says what fits.
//
//	recipe, err := tuning.Choose(facts, func(r tuning.Recipe) (fits bool, err error) { ... })
//	recipe.Last(steps)
//	run, err := tuning.Config(given, &recipe, environ, sets) // with what the user sets over it
//	tuning.Write(file, recipe.Choices(run))
//
// The same facts give the same recipe.
package tuning

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/optim"
	"gputrain/run/data"
)

// Facts are what the choice is made from.
type Facts struct {
	Model   Model
	Method  Method
	Lengths []int // tokens of each sequence that is trained on: of a conversation, of a prompt with a completion; of prompts alone, where the model draws
	Held    int   // conversations, or what else rows are, that are kept for evaluation
	Good    int   // rows that are good, and that are bad, where they are either
	Bad     int
	Least   int // tokens that a window has to hold besides; 0: none
	Answer  int // tokens of the longest answer among them

	Negatives int // of a row of queries, at most

	Machine Machine
	Wanted  Wanted
}

// Model is what is tuned.
type Model struct {
	Parameters int64
	Width      int // of a token's numbers between layers
	Side       int // the shortest side of the matrices that get adapters
	Context    int
	Stored     string // type of the weights in their file: f32, bf16 or f16
}

// Machine is what it is tuned on.
type Machine struct {
	Memory   uint64 // that the adapter can give; 0: nothing tells
	Software bool
	Bases    []string // values of model.base that the program has
}

// Wanted are choices that the user has made; zero values leave them open.
type Wanted struct {
	Rank, Context, Batch, Accumulate, Epochs int
	Tokens                                   int    // of a completion
	Base, Recompute, From                    string // From: adapters that are there
	Optimizer                                string // "": AdamW
	Packing                                  string // "": the run file's own
	Rate                                     float64
	Steps                                    int64 // in place of Epochs
	Every                                    int64
	Unevaluated                              bool // train.eval_every is 0
}

// Recipe is how a model is tuned.
type Recipe struct {
	Rank       int
	Base       string
	Context    int
	Cut        int // conversations that are longer than Context
	Batch      int
	Accumulate int
	Recompute  string
	Optimizer  string
	Rate       float64
	Epochs     int   // 0: the user has said Steps
	Steps      int64 // estimated from Epochs, until Last
	Warmup     int64
	Every      int64 // steps between evaluations, each with a checkpoint
	Answer     int   // tokens that an answer is given
	Tokens     int   // that a completion has at most, where the model draws some
	Rows       int   // completions under way at once

	facts Facts
}

// TooLargeError says that no recipe fits.
type TooLargeError struct {
	Least  Recipe // the one that takes least
	Needed uint64 // by its base alone
	Memory uint64 // 0: nothing tells
	Advice string // what else there is to say; "": nothing
}

// Error says what is needed and what there is.
func (e *TooLargeError) Error() string {
	there := "the adapter has less"
	if e.Memory > 0 {
		there = "the adapter has " + gpu.SizeText(e.Memory)
	}
	text := fmt.Sprintf("tune: memory: found no way that fits, down to model.base %s (%s for the weights alone), a window of %d and a batch of %d, where %s; "+
		"wanted more memory or a smaller model", e.Least.Base, gpu.SizeText(e.Needed), e.Least.Context, e.Least.Batch, there)
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// Unwrap says that it is memory that is lacking.
func (e *TooLargeError) Unwrap() error { return gpu.ErrOutOfMemory }

// kept is what the weights of the base take.
func (r Recipe) kept() uint64 {
	base, _ := array.ParseDType(r.Base) // one of array.Bases
	return uint64(float64(r.facts.Model.Parameters) * (float64(base.Whole(1<<15)) / (1 << 15)))
}

// Choose is the first recipe that fits, of those from the best to the one that takes least. Recipes whose base alone is too large are not asked about.
func Choose(f Facts, fits func(Recipe) (bool, error)) (Recipe, error) {
	if f.Method.Name == "" {
		f.Method = Methods[0]
	}
	if len(f.Lengths) == 0 {
		return Recipe{}, fmt.Errorf("tune: %s: found none to train on, wanted some", f.Method.Things)
	}
	tokens := 0
	if f.Method.Draws {
		var err error
		if tokens, err = f.drawn(); err != nil {
			return Recipe{}, err
		}
		var lengths []int
		for _, prompt := range f.Lengths {
			lengths = append(lengths, slices.Repeat([]int{prompt + tokens}, f.Method.Each)...)
		}
		f.Lengths = lengths
	}
	var last Recipe
	for _, last = range f.recipes(tokens) {
		if f.Machine.Memory > 0 && last.kept() > f.Machine.Memory {
			continue
		}
		if ok, err := fits(last); err != nil || ok {
			return last, err
		}
	}
	return last, &TooLargeError{Least: last, Needed: last.kept(), Memory: f.Machine.Memory}
}

// mostDrawn is how many tokens a completion has at most: as published, and on processors, where each takes long, a quarter of that.
func (m Machine) mostDrawn() int {
	if m.Software {
		return 128
	}
	return 512
}

// drawn is how many tokens completions have at most, behind the longest prompt.
func (f Facts) drawn() (int, error) {
	if f.Wanted.Tokens > 0 {
		return f.Wanted.Tokens, nil
	}
	longest, window := slices.Max(f.Lengths), cmp.Or(f.Wanted.Context, f.Model.Context)
	if longest >= window {
		return 0, fmt.Errorf("tune: prompts: found one of %d tokens, wanted less than the window of %d: completions stand behind", longest, window)
	}
	return min(f.Machine.mostDrawn(), window-longest), nil
}

// rowsAtOnce is how many completions are under way at once at most, and atLeast how many where memory is short: what a pass takes hardly grows up to there.
const (
	rowsAtOnce = 64
	atLeast    = 8
)

// enough is how many tokens a batch needs to keep an adapter busy, which is rather reached than that nothing is computed again.
const enough = 1024

// recipes are the ways to tune, the best first: what comes later takes less memory, but more time, or rounds the base, or cuts conversations. These are cut
// where all else takes least.
func (f Facts) recipes(tokens int) (all []Recipe) {
	for i, context := range f.contexts() {
		if i > 0 {
			least := all[len(all)-1]
			least.Context = context
			all = append(all, least.counted())
			continue
		}
		for _, base := range f.bases() {
			r := Recipe{facts: f, Base: base, Context: context, Rank: f.rank(), Optimizer: f.optimizer(), Rate: f.rate(), Tokens: tokens}
			if !f.Method.Draws && !f.Method.Head {
				r.Answer = min(f.Machine.mostAnswer(), max(16, 2*f.Answer))
			}
			rows := cmp.Or(f.Wanted.Batch, r.rowsAnUpdate())
			for _, r.Recompute = range recomputes(f.Wanted.Recompute) {
				for _, r.Batch = range f.Method.batches(rows, f.Wanted.Batch > 0, f.Machine.mostTokens()/context) {
					if r.Recompute != "layers" && r.Batch*context < enough && r.Batch < rows {
						continue
					}
					if r.Accumulate = cmp.Or(f.Wanted.Accumulate, max(1, (rows+r.Batch/2)/r.Batch)); f.Method.Whole {
						r.Accumulate = 1
					}
					if f.Method.Draws {
						r.Rows = min(rowsAtOnce, r.Batch*r.Accumulate, max(atLeast, 4*r.Batch))
					}
					all = append(all, r.counted())
				}
			}
		}
	}
	return all
}

// recomputes are what may be computed again, from nothing on.
func recomputes(wanted string) []string {
	if wanted != "" {
		return []string{wanted}
	}
	return []string{"none", "attention", "layers"}
}

// batches are the rows that are computed at once: all of an update, or half as many, down to one. Those that are drawn may be of any group, but all of an
// update are whole groups.
func (m Method) batches(rows int, fixed bool, most int) (all []int) {
	if fixed {
		return []int{rows}
	}
	each := max(1, m.Each)
	switch {
	case m.Draws:
		each = 1
	case m.Whole:
		most = rows
	}
	for n := max(each, min(rows, most)/each*each); n > 0; n = n / 2 / each * each {
		for m.Draws && rows%n > 0 {
			n--
		}
		all = append(all, n)
	}
	return all
}

// mostTokens is how many tokens are computed at once at most: more makes no step faster.
func (m Machine) mostTokens() int {
	if m.Software {
		return 2048
	}
	return 8192
}

// mostAnswer is how many tokens an answer to a held-out question is shown at most: on processors each takes long.
func (m Machine) mostAnswer() int {
	if m.Software {
		return 48
	}
	return 256
}

// bases are the types in which the base may be kept, the best first. A base that is stored in bf16 is the same in bf16 and in f32; on processors f32 needs
// no widening.
func (f Facts) bases() []string {
	if f.Wanted.Base != "" {
		return []string{f.Wanted.Base}
	}
	wanted := array.Names(array.Bases)
	if f.Model.Stored == "bf16" && !f.Machine.Software {
		wanted = wanted[1:]
	}
	return slices.DeleteFunc(wanted, func(b string) bool { return !slices.Contains(f.Machine.Bases, b) })
}

// step is what windows are a multiple of.
const step = 64

// contexts are the windows that may be taken: one that holds the longest conversation, unless that is far longer than the rest, and then shorter ones.
func (f Facts) contexts() (all []int) {
	if f.Wanted.Context > 0 {
		return []int{f.Wanted.Context}
	}
	sorted := slices.Sorted(slices.Values(f.Lengths))
	longest, most := sorted[len(sorted)-1], sorted[(len(sorted)-1)*99/100]
	if longest > 2*most && f.Method.Form == "" {
		longest = most
	}
	longest = max(longest, f.Least)
	least := min((sorted[len(sorted)/2]+step-1)/step*step, f.Model.Context)
	if f.Method.Form != "" { // nothing of it is cut
		least = f.Model.Context
	}
	for n := min((longest+step-1)/step*step, f.Model.Context); ; n = max(least, n*3/4/step*step) {
		all = append(all, n)
		if n <= least {
			return all
		}
	}
}

// learned is how many conversations, pairs or rows there are to train on.
func (f Facts) learned() int { return len(f.Lengths) / max(1, f.Method.Each) }

// rank grows with what there is to learn, and is no more than the sides of the matrices.
func (f Facts) rank() int {
	if f.Wanted.Rank > 0 {
		return f.Wanted.Rank
	}
	r := 8
	switch n := f.learned(); {
	case n >= 10_000:
		r = 32
	case n >= 500:
		r = 16
	}
	return min(r, f.Model.Side)
}

// adamw is the optimizer whose rate is known for models of any width.
const adamw = "adamw"

// optimizer is AdamW, or what the user names.
func (f Facts) optimizer() string { return cmp.Or(f.Wanted.Optimizer, adamw) }

// ofAdamW is what an optimizer's rate for new models is of AdamW's; 1 where it has none of its own.
func ofAdamW(name string) float64 {
	of, _ := optim.Find(name) // an unknown name is told of where the run file is read
	than, _ := optim.Find(adamw)
	return cmp.Or(of.Rate, than.Rate) / than.Rate
}

// rate is that of the method for AdamW and models 4,096 wide, and higher for narrower ones. It has one digit.
func (f Facts) rate() float64 {
	if f.Wanted.Rate > 0 {
		return f.Wanted.Rate
	}
	v := f.Method.Rate * math.Pow(4096/float64(max(f.Model.Width, 1)), f.Method.Power) * ofAdamW(f.optimizer())
	digit := math.Pow(10, math.Floor(math.Log10(v)))
	return math.Round(v/digit) * digit
}

// tokens is the sum of the lengths, as far as windows hold them.
func (r Recipe) tokens() (n int) {
	for _, l := range r.facts.Lengths {
		n += min(l, r.Context)
	}
	return n
}

// rowsAnUpdate is the number of windows in an update: those of 4 to 16 conversations, fewer where there are few.
func (r Recipe) rowsAnUpdate() int {
	n := len(r.facts.Lengths)
	m := r.facts.Method
	if m.Each > 0 {
		return m.Each * min(max(n/m.Each/40, m.Least), m.Most, max(1, n/m.Each))
	}
	return max(1, int(math.Round(float64(min(max(n/40, m.Least), m.Most))/r.perWindow())))
}

// perWindow is how many conversations share a window.
func (r Recipe) perWindow() float64 {
	if r.facts.Method.Each > 0 || r.facts.Wanted.Packing == data.PackNone {
		return 1
	}
	return float64(r.Context*len(r.facts.Lengths)) / float64(max(1, r.tokens()))
}

// rows is how many so many windows have.
func (r Recipe) rows(windows int) int {
	return max(1, int(float64(windows)*r.perWindow())/max(1, r.facts.Method.Each))
}

// leastSteps is what adapters need to learn at all.
const leastSteps = 150

// counted is r with what its window cuts, its epochs, and the steps that they are about.
func (r Recipe) counted() Recipe {
	r.Cut = 0
	for _, n := range r.facts.Lengths {
		if n > r.Context {
			r.Cut++
		}
	}
	if f := r.facts; f.Wanted.Steps > 0 && f.Wanted.Epochs == 0 {
		r.Last(f.Wanted.Steps)
		return r
	}
	windows := float64(len(r.facts.Lengths))
	if r.facts.Method.Each == 0 {
		windows = max(1, math.Ceil(windows/r.perWindow()/0.9))
	}
	each := max(1, int64(windows)/int64(r.Batch*r.Accumulate))
	n := r.facts.Method.Passes
	switch documents := len(r.facts.Lengths) / max(1, r.facts.Method.Each); {
	case documents >= 20_000:
		n = 1
	case documents >= 5_000:
		n = min(n, 2)
	}
	n = max(n, min(10, int((leastSteps+each-1)/each)))
	r.Epochs = cmp.Or(r.facts.Wanted.Epochs, n)
	r.Last(each * int64(r.Epochs))
	return r
}

// Last says how many steps the epochs are.
func (r *Recipe) Last(steps int64) {
	r.Steps = steps
	r.Warmup = min(max(steps*3/100, 2), steps/2)
	r.Every = cmp.Or(r.facts.Wanted.Every, max(1, (steps+9)/10))
}

// leastPatience is how many evaluations in a row are no better before a run ends early, where there are ten, and patient the share of them that this is.
const (
	leastPatience = 4
	patient       = 0.4
)

// patience is how many evaluations in a row are no better before the run ends; 0: there are none.
func (r Recipe) patience() int64 {
	if r.facts.Held == 0 || r.facts.Wanted.Unevaluated {
		return 0
	}
	return max(leastPatience, int64(math.Round(patient*float64(r.Steps)/float64(r.Every))))
}

// endRatio is the rate of the last step, as a share of the peak.
const endRatio = 0.1

// Stored is the type of the model's weights in their file.
func (r Recipe) Stored() string { return r.facts.Model.Stored }

// Share is the share of so many conversations that is kept for evaluation: a tenth, at most 100 of them.
func Share(conversations int) (float64, error) {
	if conversations < 2 {
		return 0, fmt.Errorf("tune: conversations: found %d, wanted 2 or more: some are held out, and the rest is trained on", conversations)
	}
	held := min(max(conversations/10, 1), 100)
	return math.Ceil(float64(held)/float64(conversations)*1e4) / 1e4, nil
}
