package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gputrain/graph"
	"gputrain/internal/formats"
	"gputrain/internal/suggest"
)

// Objective is what a network learns. The zero value is the next token: the mean loss of the labels.
type Objective struct {
	Loss    string             // one of Objectives; "": the next token
	Numbers map[string]float64 // that the loss reads, by name
	// Packed: windows have several completions, as documents that do not see each other (Options.Documents), those of a pair side by side in one. Sums are over
	// the labels of each.
	Packed bool
	// Parted: an update has several batches, all rows of which each of a Loss.Whole is held against.
	Parted bool
}

// OfBatch is the objective of a batch by itself, as evaluations have them.
func (o Objective) OfBatch() Objective {
	o.Parted = false
	return o
}

// A Loss is one row of the table of losses: every fact about an objective.
type Loss struct {
	Name, Tag string // Tag is the word for a model card
	Numbers   []number
	Reference bool   // it reads log-probabilities of a reference: the network without its adapters, or what is given with the rows
	Mean      bool   // the log-probability of a completion is a mean over its tokens, not a sum
	Counts    string // what it is the mean of, in the plural
	Head      string // the kind of Head that it is of
	Whole     bool   // each of Counts is held against all others of an update, or of a batch of an evaluation
	Drops     bool   // of a pass ahead: it has the dropout of the update
	// Group is how many rows of a batch are one of Counts. Form is the form of the rows of files that become such groups, "" for documents, and Says what
	// each has.
	Group      int
	Form, Says string
	Packs      bool   // its completions may be packed
	Entropy    bool   // it reads the entropy of the network at each label
	grows      string // the number by which Group grows; "": none
	packed     bool   // Objective.Packed
	// Sums are the names of Built.Sums. Shown are the figures that tell of an evaluation; none: the perplexity does.
	Sums, Shown []string
	Maxima      int    // so many of Sums, the last, are the greatest of all instead: of a batch, an update, an evaluation
	Ahead       *Ahead // what it finds of an update before the first backward pass; nil: nothing

	derive func(figures map[string]float64) // adds what follows from the means of Sums
	inputs func(o Objective, rows Rows) batchInputs
	beside func(o Objective, adapted bool, seq int) map[string]int // see Objective.Beside; nil: nothing but a reference
	build  func(b *Builder, built *Built, of *graph.Value) error   // of the loss of each label, or what the Head gives; nil: the sum of these losses
	parted func(l Loss) Loss                                       // the loss with Objective.Parted; nil without Whole
	// head builds of what the head multiplies instead: rows x, W and the cap of logits.
	head func(b *Builder, built *Built, x, head *graph.Value, limit float64) error
}

// number is a parameter of a loss, and what it may be.
type number struct {
	Name, Wanted string
	Default      float64 // where a run file has null
	Takes        func(v float64) bool
}

// above0 is a number above 0.
func above0(name string) number {
	return number{Name: name, Wanted: "a number above 0 and below 1e30", Takes: func(v float64) bool { return v > 0 && v < 1e30 }}
}

// from0 is a number of 0 and more.
func from0(name string) number {
	return number{Name: name, Wanted: "a number from 0 to 1e30", Takes: func(v float64) bool { return v >= 0 && v <= 1e30 }}
}

func finite(v float64) bool { return math.Abs(v) <= 1e30 }

// Rows are sequences of a batch.
type Rows struct {
	Tokens, Labels []int32 // [Count*seq]; labels that do not count are graph.IgnoreLabel
	Count          int
	Beside         map[string][]float32 // what the loss reads beside them, by name: see data.Batch

	Positions []int32 // see data.Batch; nil: each row is one document

	group     int // Loss.Group
	perWindow int // Objective.PerWindow
}

// batchInputs are what a graph reads of a batch.
type batchInputs struct {
	Tokens, Labels []int32              // [batch*seq]; Labels as the input has them
	Ends           []int32              // InputRows, where a head reads last tokens
	Ints           map[string][]int32   // further inputs of the loss, by name
	Floats         map[string][]float32 // the inputs of the loss, by name
	Counts         Counts
	Idle           bool  // the loss and its gradient are 0, whatever the network is
	Lacking        error // names the first without labels, which training refuses and an evaluation leaves out; nil: none
}

// Counts are what a batch has, or all batches of an update.
type Counts struct {
	Of     int64 // Loss.Counts of it, by which the sum of the losses is divided
	Labels int64 // those of a mean over labels that is part of the loss, or of its figures
}

// LabelScale is InputLabelScale.
func (c Counts) LabelScale() float32 { return float32(float64(c.Of) / float64(max(1, c.Labels))) }

var nextToken = Loss{
	Counts: "tokens", Group: 1,
	inputs: func(_ Objective, rows Rows) batchInputs {
		in := batchInputs{Tokens: rows.Tokens, Labels: rows.Labels}
		for _, label := range rows.Labels {
			if label != graph.IgnoreLabel {
				in.Counts.Of++
			}
		}
		return in
	},
}

// losses are all others: each file of losses adds its own.
var losses []Loss

// Objectives are the names of all losses whose rows have a form of their own.
func Objectives() (names []string) {
	for _, l := range losses {
		if l.Form != "" {
			names = append(names, l.Name)
		}
	}
	return names
}

// Row is the objective's loss.
func (o Objective) Row() Loss {
	i := slices.IndexFunc(losses, func(l Loss) bool { return l.Name == o.Loss })
	switch {
	case o.Loss == looked.Name:
		return looked
	case o.Loss == lookedTokens.Name:
		return lookedTokens
	case o.Loss == lookedVectors.Name:
		return lookedVectors
	case i < 0:
		return nextToken
	}
	l := losses[i]
	if l.grows != "" {
		l.Group += int(o.Numbers[l.grows])
	}
	if l.Whole && o.Parted {
		l = l.parted(l)
	}
	if l.packed = o.Packed; l.packed { // a window has whole groups
		l.Group = 1
	}
	return l
}

// Reads tells whether the loss reads a number.
func (l Loss) Reads(name string) bool {
	return slices.ContainsFunc(l.Numbers, func(n number) bool { return n.Name == name })
}

// Validate refuses a loss that does not exist, and numbers that it does not read.
func (o Objective) Validate() error {
	row, names := o.Row(), Objectives()
	if o.Loss != row.Name {
		return fmt.Errorf("model: preference: loss: found %q, wanted one of %s%s", o.Loss, strings.Join(names, ", "), suggest.DidYouMean(o.Loss, names))
	}
	if o.Packed && !row.Packs {
		return fmt.Errorf("model: preference: packed: found %s, wanted none of it: %s", cmp.Or(o.Loss, "the next token"), row.unpacked())
	}
	for _, n := range row.Numbers {
		if v := o.Numbers[n.Name]; !n.Takes(v) {
			return fmt.Errorf("model: preference: %s: found %v, wanted %s", n.Name, v, n.Wanted)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Numbers)) {
		if v := o.Numbers[name]; v != 0 && !row.Reads(name) {
			return fmt.Errorf("model: preference: %s: found %v, wanted none: %s has no such number", name, v, o.Loss)
		}
	}
	return nil
}

// unpacked says why a loss has a window for each completion.
func (l Loss) unpacked() string {
	if l.Ahead != nil {
		return "it looks at all completions of an update ahead, each in a window of its own"
	}
	return "it reads no pairs, and no completions that are good or bad"
}

// One is Counts in the singular.
func (l Loss) One() string { return strings.TrimSuffix(l.Counts, "s") }

// Check refuses batches of so many rows, in steps and in evaluations, that the loss does not go with.
func (l Loss) Check(batch, evaluation int, documents bool) error {
	wanted, each := "an even number", "two"
	if l.Group != 2 {
		wanted, each = fmt.Sprintf("a multiple of %d", l.Group), fmt.Sprint(l.Group)
	}
	switch {
	case batch%l.Group != 0:
		return fmt.Errorf("preference: found batch %d, wanted %s: a %s has %s sequences", batch, wanted, l.One(), each)
	case evaluation%l.Group != 0:
		return fmt.Errorf("preference: found evaluations of %d sequences, wanted %s: a %s has %s", evaluation, wanted, l.One(), each)
	case l.packed && !documents:
		return errors.New("preference: found packed completions in sequences of one document, wanted sequences of documents")
	case documents && l.Form != "" && !l.packed:
		return errors.New("preference: found sequences of documents, wanted a sequence for each completion")
	}
	return nil
}

// check refuses graphs that have no such loss.
func (o Objective) check(def Definition, batch int, of Options) error {
	row := o.Row()
	wrong := func(found, wanted string) error {
		return fmt.Errorf("model: %s: build: preference: found %s, wanted %s", def.Kind(), found, wanted)
	}
	head := Head{}
	if of.headed != nil {
		head = of.headed.head
	}
	switch {
	case of.Loss && row.Head != head.Kind:
		return wrong("a head of "+headRowOf(head.Kind).says, "one of "+headRowOf(row.Head).says+": that is what the loss is of")
	case o.Loss == "":
		return nil
	case def.Vocab() == 0:
		return wrong("a network without tokens", "one that reads text")
	case !of.Loss:
		return wrong("no loss", "one")
	}
	if err := row.Check(batch, 0, of.Documents); err != nil {
		return fmt.Errorf("model: %s: build: %w", def.Kind(), err)
	}
	return o.Validate()
}

// ReadsReference tells whether graphs of def read InputReference.
func (o Objective) ReadsReference(def Definition) bool {
	return o.Row().Reference && len(AdapterParams(def)) == 0 && !Refers(def)
}

// WantsReference tells whether def needs a reference in its graphs (WithReference), as it reads one of completions that no text has.
func (o Objective) WantsReference(def Definition) bool {
	row := o.Row()
	if row.Form == formats.Prompts {
		return o.Numbers["beta"] != 0 && len(AdapterParams(def)) == 0 && !Refers(def)
	}
	return o.ReadsReference(def) && row.Ahead != nil && row.Ahead.Mismatched
}

// Inputs are those of a batch.
func (o Objective) Inputs(rows Rows) batchInputs {
	row := o.Row()
	rows.group, rows.perWindow = row.Group, o.PerWindow(len(rows.Tokens)/max(1, rows.Count))
	in := row.inputs(o, rows)
	in.Lacking = cmp.Or(rows.overfull(), in.Lacking)
	return in
}

// least makes a figure of the greatest of what is negated; there may have been nothing.
func least(figures map[string]float64, name string) {
	if figures[name] = -figures[name]; figures[name] > -nothing/2 {
		delete(figures, name)
	}
}

// nothing is less than what the greatest is of.
const nothing = -1e30

// Figures are by name what the means of Sums come to; nil for none.
func (l Loss) Figures(means []float64) map[string]float64 {
	if len(l.Sums) == 0 {
		return nil
	}
	figures := map[string]float64{}
	for i, name := range l.Sums {
		figures[name] = means[i]
	}
	if l.derive != nil {
		l.derive(figures)
	}
	return figures
}

// Telling is a loss that has these figures, for who reads a log that does not name it.
func Telling[V any](figures map[string]V) Loss {
	named := func(l Loss, mean float64) map[string]float64 {
		return l.Figures(slices.Repeat([]float64{mean}, len(l.Sums)))
	}
	for _, l := range losses {
		always, ever := named(l, 0), named(l, 0.5) // a figure may be one that some steps have not
		for name := range figures {
			if _, known := ever[name]; !known {
				always = nil
			}
			delete(always, name)
		}
		if always != nil && len(always) == 0 {
			return l
		}
	}
	return nextToken
}
