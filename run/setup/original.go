package setup

import (
	"errors"
	"fmt"
	"io"

	"gputrain/hub"
	"gputrain/model"
)

// mostOriginals is how many runs may have begun with one another.
const mostOriginals = 8

// Original opens the model that training began with, if b is a checkpoint of a run that began with a directory, and
// that directory, if it was a checkpoint itself, likewise; nil where training began from scratch. A directory that is
// gone is told on out, and is nil, unless it is where the first has moved to ("": nobody knows).
func Original(b *hub.Bundle, moved string, out io.Writer) (from *hub.Bundle, weights *model.Stored, err error) {
	dir := b.Path(".")
	for range mostOriginals {
		next, err := beganWith(dir)
		if err != nil {
			return nil, nil, errors.Join(err, from.Close())
		}
		if next == "" {
			break
		}
		_ = from.Close() // nothing was written
		from, err = Open(next, io.Discard)
		if err != nil && moved != "" {
			from, err = Open(moved, io.Discard)
		}
		moved = ""
		if err != nil {
			fmt.Fprintf(out, "gputrain: %s: training began with %s, which is not there: its names and types of weights are not known\n", dir, next)
			return nil, nil, nil
		}
		dir = from.Path(".")
	}
	if from == nil && moved != "" { // no run says where training began
		if from, err = Open(moved, io.Discard); err != nil {
			return nil, nil, err
		}
	}
	if from == nil {
		return nil, nil, nil
	}
	if _, weights, err = from.Partial([]string{""}); err != nil {
		return nil, nil, errors.Join(&ModelError{err}, from.Close())
	}
	return from, weights, nil
}

// beganWith is model.from of the run that has a checkpoint; "" for none.
func beganWith(dir string) (string, error) {
	run, err := runDirOf(dir)
	if err != nil || run == "" {
		return "", err
	}
	cfg, err := OfRun(run)
	if cfg == nil {
		return "", err
	}
	return cfg.Model.From, err
}
