package reward

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"gputrain/internal/suggest"
)

// Spec is a reward in a run file, an item of a list. A field that is left out has its zero value; the tags are those of package runfile.
type Spec struct {
	Kind      string   `yaml:"kind" json:"kind" range:"rewards" doc:"what the reward is: equal, number, regex, tags, length, repetition, model, command or each"`
	Name      string   `yaml:"name" json:"name,omitempty" optional:"true" doc:"its name in figures; empty: the kind"`
	Weight    *float64 `yaml:"weight" json:"weight,omitempty" range:"finite" optional:"true" doc:"weight in the sum of rewards; null: 1"`
	Scale     *float64 `yaml:"scale" json:"scale,omitempty" range:"finite" optional:"true" doc:"what answers are multiplied by, before offset is added; null: 1"`
	Offset    float64  `yaml:"offset" json:"offset,omitempty" range:"finite" optional:"true" doc:"what is added to answers"`
	Column    string   `yaml:"column" json:"column,omitempty" optional:"true" doc:"equal, number, regex: the column of a row that has what is wanted; a row that has null there gets no reward"`
	Tolerance *float64 `yaml:"tolerance" json:"tolerance,omitempty" range:"0..1" optional:"true" doc:"number: how far from the column's number, as a share of it; null: 1e-6"`
	Pattern   string   `yaml:"pattern" json:"pattern,omitempty" optional:"true" doc:"regex: a regular expression in Go's syntax"`
	Whole     bool     `yaml:"whole" json:"whole,omitempty" optional:"true" doc:"regex: whether all of the completion has to match, without white space around it"`
	Group     int      `yaml:"group" json:"group,omitempty" range:"0..1000" optional:"true" doc:"regex: the group whose text is compared with the column; 0: the first"`
	Tags      []string `yaml:"tags" json:"tags,omitempty" optional:"true" doc:"tags: texts, such as ['<think>', '</think>'], of which each is to occur once, in this order"`
	Tokens    int      `yaml:"tokens" json:"tokens,omitempty" range:"0.." optional:"true" doc:"length: tokens of a completion from which on the reward is -1; 0: the most that a completion has"`
	Buffer    int      `yaml:"buffer" json:"buffer,omitempty" range:"0.." optional:"true" doc:"length: tokens before that over which the reward falls from 0"`
	NGram     int      `yaml:"ngram" json:"ngram,omitempty" range:"0..1000" optional:"true" doc:"repetition: tokens of an n-gram; 0: 3"`
	Model     string   `yaml:"model" json:"model,omitempty" optional:"true" doc:"model: directory of a reward model"`
	Command   []string `yaml:"command" json:"command,omitempty" optional:"true" doc:"command, each: program and arguments, which no shell reads. It starts only where it is typed, by --set, or with --allow-command"`
	Timeout   string   `yaml:"timeout" json:"timeout,omitempty" range:"duration" optional:"true" doc:"command: time for the answers of a batch; each: for one row; empty: 60s"`
	Processes int      `yaml:"processes" json:"processes,omitempty" range:"0..1024" optional:"true" doc:"each: processes at once; 0: as many as processors"`
}

// Env is what rewards need of those who open them. The zero value opens all that need nothing, and starts no command.
type Env struct {
	AllowCommand bool                                     // whether the user typed the commands, or that they may start: never what a file says
	Dir          string                                   // where commands start; empty: where the process stands
	Log          func(line string)                        // takes what commands write to stderr, fit for a terminal, from several goroutines; nil: nobody
	Model        func(directory string) (Function, error) // opens a reward model; nil: none can be
	Tokens       int                                      // the most of a completion
}

// A kind is what a reward can be.
type kind struct {
	name   string
	reads  []string                  // fields of Spec, besides those that every kind reads
	needs  []string                  // those of them that may not be left out
	starts bool                      // a command
	look   func(s Spec, e Env) error // says what would be wrong with opening one; nil: to open one starts and reads nothing
	open   func(s Spec, e Env) (Function, error)
}

// kinds are all, in the order of the page.
var kinds = []kind{
	{name: "equal", reads: []string{"column"}, needs: []string{"column"}, open: openEqual},
	{name: "number", reads: []string{"column", "tolerance"}, needs: []string{"column"}, open: openNumber},
	{name: "regex", reads: []string{"pattern", "whole", "group", "column"}, needs: []string{"pattern"}, open: openRegex},
	{name: "tags", reads: []string{"tags"}, needs: []string{"tags"}, open: openTags},
	{name: "length", reads: []string{"tokens", "buffer"}, needs: []string{"buffer"}, open: openLength},
	{name: "repetition", reads: []string{"ngram"}, open: openRepetition},
	{name: "model", reads: []string{"model"}, needs: []string{"model"}, look: lookForModel, open: openModel},
	{name: "command", reads: []string{"command", "timeout"}, needs: []string{"command"}, starts: true, look: lookForCommand, open: openCommand},
	{name: "each", reads: []string{"command", "timeout", "processes"}, needs: []string{"command"}, starts: true, look: lookForCommand, open: openEach},
}

// Kinds are the names of all kinds.
func Kinds() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// kindOf is the kind of a name.
func kindOf(name string) (kind, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, fmt.Errorf("kind: found %q, wanted one of %s%s", name, strings.Join(Kinds(), ", "), suggest.DidYouMean(name, Kinds()))
	}
	return kinds[i], nil
}

// Called is the name of the reward in figures.
func (s Spec) Called() string { return cmp.Or(s.Name, s.Kind) }

// Starts tells whether the reward is a command.
func (s Spec) Starts() bool {
	k, err := kindOf(s.Kind)
	return err == nil && k.starts
}

// common are the fields that every kind reads.
var common = []string{"kind", "name", "weight", "scale", "offset"}

// Validate checks what can be checked without opening anything: an error names the field.
func (s Spec) Validate() error {
	k, err := kindOf(s.Kind)
	if err != nil {
		return err
	}
	for f, v := range reflect.ValueOf(s).Fields() {
		switch name := f.Tag.Get("yaml"); {
		case slices.Contains(common, name):
		case v.IsZero() && slices.Contains(k.needs, name):
			return fmt.Errorf("%s: found none, wanted one with kind %s", name, s.Kind)
		case !v.IsZero() && !slices.Contains(k.reads, name):
			return fmt.Errorf("%s: found %v, wanted none with kind %s, which reads %s", name, reflect.Indirect(v), s.Kind, strings.Join(k.reads, ", "))
		}
	}
	for name, v := range map[string]float64{"weight": or(s.Weight, 1), "scale": or(s.Scale, 1), "offset": s.Offset} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: found %v, wanted a finite number", name, v)
		}
	}
	return nil
}

// CheckRow says what is wrong with the column of a row that the reward reads.
func (s Spec) CheckRow(columns map[string]any) error {
	if s.Column == "" {
		return nil
	}
	text, said, err := column(Sample{Columns: columns}, s.Column)
	if err == nil && said && s.Kind == "number" {
		_, err = numberIn(s.Column, text)
	}
	return err
}

// Check says what is wrong with rewards of a run file before anything is opened or started.
func Check(specs []Spec, e Env) error {
	names := map[string]bool{}
	for i, s := range specs {
		if names[s.Called()] {
			return fmt.Errorf("rewards[%d]: found %q twice, wanted a name for each (name: ...)", i, s.Called())
		}
		names[s.Called()] = true
		if _, err := s.checked(e); err != nil {
			return fmt.Errorf("rewards[%d]: reward %q: %w", i, s.Called(), err)
		}
	}
	return nil
}

// checked is the kind of a reward that can be opened.
func (s Spec) checked(e Env) (kind, error) {
	if err := s.Validate(); err != nil {
		return kind{}, err
	}
	k, err := kindOf(s.Kind)
	switch {
	case err != nil:
		return k, err
	case k.starts && !e.AllowCommand: // the one place that decides it
		return k, fmt.Errorf("found the command %s in a file or in the environment, wanted it typed: --allow-command, or --set with the rewards",
			shown(strings.Join(s.Command, " ")))
	case k.look != nil:
		err = k.look(s, e)
	default:
		_, err = k.open(s, e)
	}
	return k, err
}

// open makes the function of a reward. One that is an io.Closer is closed by the caller.
func open(s Spec, e Env) (Function, error) {
	k, err := s.checked(e)
	if err != nil {
		return nil, fmt.Errorf("reward %q: %w", s.Called(), err)
	}
	f, err := k.open(s, e)
	if err != nil {
		return nil, fmt.Errorf("reward %q: %w", s.Called(), err)
	}
	return &scaled{f, or(s.Scale, 1), s.Offset}, nil
}
