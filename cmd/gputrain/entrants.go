package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gputrain/cmd/gputrain/lab/compare"
	"gputrain/internal/suggest"
	"gputrain/optim"
	"gputrain/run/runfile"
)

// entrant is one optimizer of a comparison, as the command line names it.
type entrant struct {
	label string
	name  string  // of the optimizer, where no file names it
	file  string  // a run file of its own, of nothing but the optimizer; "" where it has none
	rate  string  // of --rate
	part  float64 // of the comparison's steps that it has, in a schedule of its own
}

// labelled is what a label may be: it names a directory.
var labelled = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// entrants reads --optimizers (NAME, or LABEL=FILE, either with @PART behind the name) and --rate (LABEL=RATE).
func entrants(optimizers, rates []string) ([]entrant, error) {
	var all []entrant
	var labels []string
	for _, o := range optimizers {
		label, file, given := strings.Cut(strings.TrimSpace(o), "=")
		label, part, shorter := strings.Cut(label, "@")
		e := entrant{label: label, name: label, file: file, part: 1}
		if shorter {
			var err error
			if e.part, err = strconv.ParseFloat(part, 64); err != nil || !(e.part > 0 && e.part <= 1) {
				return nil, fmt.Errorf("--optimizers %s: found %q behind the @, wanted the part of the steps, more than 0 and at most 1", o, part)
			}
			e.label += "-" + part
		}
		label = e.label
		switch {
		case !labelled.MatchString(label):
			return nil, fmt.Errorf("--optimizers %s: found the name %q, wanted letters, digits, '.', '_' and '-'", o, label)
		case given && file == "":
			return nil, fmt.Errorf("--optimizers %s: found no file, wanted NAME or NAME=FILE", o)
		case slices.Contains(labels, label):
			return nil, fmt.Errorf("--optimizers: %s stands twice, wanted another name for the second, as in %s2=FILE", label, label)
		}
		labels = append(labels, label)
		all = append(all, e)
	}
	for _, r := range rates {
		label, rate, _ := strings.Cut(strings.TrimSpace(r), "=")
		i := slices.Index(labels, label)
		if i < 0 {
			return nil, fmt.Errorf("--rate %s: found %q, wanted one of %s%s", r, label, strings.Join(labels, ", "), suggest.DidYouMean(label, labels))
		}
		if v, err := strconv.ParseFloat(rate, 64); err != nil || !(v > 0) {
			return nil, fmt.Errorf("--rate %s: found %q, wanted a rate of more than 0", r, rate)
		}
		if all[i].rate != "" {
			return nil, fmt.Errorf("--rate: %s stands twice", label)
		}
		all[i].rate = rate
	}
	return all, nil
}

// endKey is the rate at the end, which follows the peak in a comparison.
const endKey = "optimizer.schedule.learning_rate_end"

// own tells whether a key belongs to the optimizer itself, and cannot be common to all.
func own(key string) bool {
	return key == "optimizer.name" || key == "optimizer.learning_rate" || strings.HasPrefix(key, "optimizer.parameters.")
}

// common is the run that all entrants share. What the environment or --set say holds for all of them, and so may not be of one optimizer.
func (c *compareCmd) common() (*runfile.Config, error) {
	cfg, err := runfile.ReadAll(c.Files, os.Environ(), c.Set)
	if err != nil {
		return nil, err
	}
	for key := range cfg.Values() {
		if own(key) && cfg.Given(key) && !cfg.GivenIn(key, c.Files...) {
			return nil, fmt.Errorf("%s: is of one optimizer, but what is laid over a comparison is common to all; wanted --rate NAME=RATE, or --optimizers NAME=FILE with a file of its own", cfg.At(key))
		}
	}
	for _, o := range []struct {
		flag, key    string
		value, found int64
	}{
		{"--steps", "train.steps", int64(c.Steps), cfg.Train.Steps},
		{"--eval-every", "train.eval_every", int64(c.EvalEvery), cfg.Train.EvalEvery},
	} {
		if o.value == 0 {
			continue
		}
		if cfg.Given(o.key) && !cfg.GivenIn(o.key, c.Files...) && o.found != o.value {
			return nil, fmt.Errorf("%s %d: %s says %s=%d, wanted one of the two", o.flag, o.value, cfg.Origin(o.key), o.key, o.found)
		}
		if err := cfg.Lay(o.key, strconv.FormatInt(o.value, 10), runfile.Origin(o.flag)); err != nil {
			return nil, err
		}
	}
	// What a comparison does otherwise than a single run, unless the user has said how.
	for key, value := range map[string]int64{"train.sample_tokens": 0, "train.keep": 1, "train.eval_every": max(1, cfg.Train.Steps/20)} {
		if !cfg.Given(key) {
			cfg.Put(key, value, "compare")
		}
	}
	if cfg.Train.LogEvery != 1 {
		return nil, fmt.Errorf("%s: found %d, wanted 1: a comparison needs the time of every step", cfg.At("train.log_every"), cfg.Train.LogEvery)
	}
	if cfg.Train.Patience > 0 {
		return nil, fmt.Errorf("%s: found %d, wanted 0: all make the same steps", cfg.At("train.patience"), cfg.Train.Patience)
	}
	if !cfg.HoldsOut() {
		return nil, fmt.Errorf("%s: found 0, wanted a part of the text to compare by", cfg.At("data.validation"))
	}
	if cfg.Train.EvalEvery == 0 {
		return nil, fmt.Errorf("%s: found 0, wanted 1 or more to compare by; a number beyond train.steps evaluates at the end alone", cfg.At("train.eval_every"))
	}
	return cfg, cfg.Validate()
}

// with is the common run with an entrant's own settings: those of its file, else those of the run files where they are of that
// optimizer, else the built-in ones. Its rate ends where the common run's would, as a part of the peak.
func (c *compareCmd) with(common *runfile.Config, e entrant) (cfg *runfile.Config, err error) {
	cfg = common.Clone()
	theirs := cfg.Optimizer // of the run files
	rated, part := cfg.Given("optimizer.learning_rate"), 0.0
	if theirs.LearningRate > 0 {
		part = theirs.RateEnd() / theirs.LearningRate
	}
	name := e.name
	if e.part < 1 {
		cfg.Put("train.steps", max(1, int64(math.Round(e.part*float64(cfg.Train.Steps)))), "--optimizers")
	}
	if e.file != "" {
		if name, err = optimizerIn(e); err != nil {
			return nil, err
		}
	}
	row, err := optim.Find(name)
	if err != nil {
		return nil, err
	}
	if name != theirs.Name {
		cfg.ClearParameters()
	}
	cfg.Put("optimizer.name", name, "--optimizers")
	if name != theirs.Name || !rated {
		ok := row.Rate > 0
		if !ok && e.rate == "" && e.file == "" {
			return nil, fmt.Errorf("compare: %s has no built-in learning rate, wanted --rate %s=RATE", name, e.label)
		}
		if ok {
			cfg.Put("optimizer.learning_rate", row.Rate, "built-in")
		}
	}
	ownEnd := false
	if e.file != "" {
		if err := c.ownFile(cfg, e); err != nil {
			return nil, err
		}
		ownEnd = cfg.GivenIn(endKey, e.file)
		if cfg.GivenIn(endKey+"_ratio", e.file) && !ownEnd {
			if err := cfg.Lay(endKey, "null", "compare"); err != nil {
				return nil, err
			}
			ownEnd = true
		}
	}
	if e.rate != "" {
		if err := cfg.Lay("optimizer.learning_rate", e.rate, "--rate"); err != nil {
			return nil, err
		}
	}
	if !ownEnd {
		end := strconv.FormatFloat(part*cfg.Optimizer.LearningRate, 'g', 6, 64)
		if err := cfg.Lay(endKey, end, "compare"); err != nil {
			return nil, err
		}
	}
	return cfg, cfg.Validate()
}

// optimizerIn is the name in an entrant's file; a file that names none is of the optimizer that the entrant is called.
func optimizerIn(e entrant) (string, error) {
	cfg := runfile.New()
	if err := cfg.File(e.file); err != nil {
		return "", err
	}
	if !cfg.Given("optimizer.name") {
		return e.name, nil
	}
	return cfg.Optimizer.Name, nil
}

// ownFile lays an entrant's file over its run. It may say nothing that the runs of a comparison have in common.
func (c *compareCmd) ownFile(cfg *runfile.Config, e entrant) error {
	if slices.Contains(c.Files, e.file) {
		return fmt.Errorf("--optimizers %s=%s: is a run file of the comparison too, wanted a file of the optimizer alone", e.label, e.file)
	}
	if err := cfg.File(e.file); err != nil {
		return err
	}
	for key := range cfg.Values() {
		if cfg.GivenIn(key, e.file) && !strings.HasPrefix(key, "optimizer.") {
			return fmt.Errorf("%s: %s: is common to all runs of a comparison, wanted it in the run file or in --set", cfg.Origin(key), key)
		}
	}
	return nil
}

// describe is the entrant as the comparison records it.
func (e entrant) describe(cfg *runfile.Config) *compare.Entrant {
	o := cfg.Optimizer
	options := map[string]any{}
	for key, value := range cfg.Values() {
		if e.file != "" && cfg.GivenIn(key, e.file) && !own(key) && key != "optimizer.parameters" && !strings.HasPrefix(key, endKey) {
			options[strings.TrimPrefix(key, "optimizer.")] = value
		}
	}
	return &compare.Entrant{
		Label: e.label, Steps: cfg.Train.Steps, Optimizer: o.Name, LearningRate: o.LearningRate, RateEnd: o.RateEnd(),
		RateFrom: string(cfg.Origin("optimizer.learning_rate")), Parameters: maps.Clone(o.Parameters), Options: options,
	}
}

var errNoOptimizers = errors.New("--optimizers: found none, wanted names such as adamw,muon")
