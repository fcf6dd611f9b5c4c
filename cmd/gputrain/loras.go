package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/setup"
)

// loraFlag is DIR[=WEIGHT]: adapters in a directory, and what they count.
type loraFlag struct {
	dir    string
	weight float64
}

// readLoRAFlag reads what names a directory of low-rank adapters, or a run of them; is: it does.
func readLoRAFlag(given string) (l loraFlag, is bool, err error) {
	if l = (loraFlag{given, 1}); given == "" {
		return l, false, nil
	}
	at := strings.LastIndexByte(given, '=')
	if !hasAdapters(given) && at >= 0 {
		l.dir = given[:at]
	}
	switch {
	case hub.Has(l.dir, "config.json") && !hasAdapters(l.dir):
		return l, false, usageError{fmt.Errorf("--adapter: %s: found a whole model, wanted adapters (%s) for one", l.dir, model.AdapterConfigFile)}
	case !hasAdapters(l.dir) && at >= 0:
		return l, false, usageError{fmt.Errorf("--adapter: %s: found no %s in it, wanted a directory with low-rank adapters", l.dir, model.AdapterConfigFile)}
	case !hasAdapters(l.dir):
		return l, false, nil
	case l.dir == given:
		return l, true, nil
	}
	if l.weight, err = strconv.ParseFloat(given[at+1:], 64); err != nil || l.weight-l.weight != 0 {
		return l, false, usageError{fmt.Errorf("--adapter: %s: weight: found %q, wanted a number such as 0.5", l.dir, given[at+1:])}
	}
	return l, true, nil
}

// lay has open lay the adapters among what is given over the model; rest is what names none.
func (f *baseFlag) lay(given []string) (rest []string, err error) {
	f.laid = nil
	for _, text := range given {
		l, is, err := readLoRAFlag(text)
		switch {
		case err != nil:
			return nil, err
		case is:
			f.laid = append(f.laid, l)
		case text != "":
			rest = append(rest, text)
		}
	}
	if len(f.laid) > 0 && f.Base != "" {
		return nil, usageError{errors.New("--base: found a model before the adapters too, wanted one base")}
	}
	return rest, nil
}

// layAll is lay where all must name adapters.
func (f *baseFlag) layAll(command string, given []string) error {
	rest, err := f.lay(given)
	if err == nil && len(rest) > 0 {
		err = usageError{fmt.Errorf("%s: %s: found no %s in it, wanted a directory with low-rank adapters, or a run of them, and perhaps =WEIGHT", command, rest[0], model.AdapterConfigFile)}
	}
	return err
}

// addUp has b's adapters, the first of those that are laid over a model, count together with the others.
func (f baseFlag) addUp(b *hub.Bundle) error {
	var others []hub.Weighted
	for _, l := range f.laid[1:] {
		o, err := setup.Open(l.dir, told)
		if err != nil {
			return err
		}
		others = append(others, hub.Weighted{Bundle: o, Weight: l.weight})
	}
	b.AddUp(f.laid[0].weight, others...)
	return nil
}

// hasAdapters tells directories of low-rank adapters, and those of runs, from selectors.
func hasAdapters(dir string) bool {
	return hub.Has(dir, model.AdapterConfigFile) || hub.Has(dir, "checkpoints")
}
