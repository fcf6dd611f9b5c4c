package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"gputrain/model"
	"gputrain/train/runfile"
)

// mostOriginals is how many runs may have begun with one another.
const mostOriginals = 8

// Original opens the weights of the model that training began with, if dir is a checkpoint of a run that began with a directory, and that directory, if it
// was a checkpoint itself, likewise; nil where training began from scratch. A directory that is gone is told on out, and is nil, unless it is
// where the first has moved to ("": nobody knows).
func Original(dir, moved string, out io.Writer) (weights *model.Stored, release func(), err error) {
	nothing := func() {}
	from := ""
	for range mostOriginals {
		next, err := beganWith(dir)
		if err != nil {
			return nil, nothing, err
		}
		if next == "" {
			break
		}
		found, leave, err := HoldModel(next, io.Discard)
		if err != nil && moved != "" {
			found, leave, err = HoldModel(moved, io.Discard)
		}
		moved = ""
		if err != nil {
			fmt.Fprintf(out, "gputrain: %s: training began with %s, which is not there: its names and types of weights are not known\n", dir, next)
			return nil, nothing, nil
		}
		leave()
		dir, from = found, found
	}
	if from == "" {
		return nil, nothing, nil
	}
	_, weights, err = model.OpenPartial(from, []string{""})
	if err != nil {
		return nil, nothing, &ModelError{err}
	}
	return weights, func() { _ = weights.Close() }, nil
}

// beganWith is model.from of the run that has a checkpoint; "" for none.
func beganWith(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if filepath.Base(filepath.Dir(dir)) != "checkpoints" {
		return "", nil
	}
	cfg, err := runfile.OfRun(filepath.Dir(filepath.Dir(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return cfg.Model.From, err
}
