package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"gputrain/internal/stranger"
	"gputrain/run/record"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// earlier is what a run directory says of the run in it, by its record; where there is none, it is empty.
type earlier struct {
	dir string
	record.Record
}

// readEarlier reads the record of a run directory.
func readEarlier(dir string) (e earlier, err error) {
	e.dir = dir
	text, err := stranger.Read(filepath.Join(dir, runFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, nil
	case err != nil:
		return e, fmt.Errorf("train: run directory: %w", err)
	}
	if e.Record, err = record.Read(text); err != nil {
		err = fmt.Errorf("train: run directory %q: %s: %w", dir, runFile, err)
	}
	return e, err
}

// earlierRecord is what the run directory says of the run in it, read once.
func (t *opening) earlierRecord() (earlier, error) {
	if t.earlier == nil {
		e, err := readEarlier(t.config.Dir)
		if err != nil {
			return e, err
		}
		t.earlier = &e
	}
	return *t.earlier, nil
}

// text is a setting that is a text; "": there is none.
func (e earlier) text(key string) (text string) {
	_ = json.Unmarshal([]byte(e.Values[key]), &text) // of another type it is none
	return text
}

// accumulationKey is the setting that says how the gradients of microbatches are added up.
const accumulationKey = "train.accumulation"

// accumulatingAs is the configuration with gradients added up as the run of the directory did, where the run file does not say how. said is what there is
// to say of that. A record without the key is of an older program, which did it in sequence and differed otherwise, too: it is refused.
func (c Config) accumulatingAs(e earlier) (_ Config, said string, err error) {
	i := slices.IndexFunc(c.Settings, func(s record.Setting) bool { return s.Key == accumulationKey && s.Origin == record.Default })
	if i < 0 || len(e.Values) == 0 {
		return c, "", nil
	}
	if _, known := e.Values[accumulationKey]; !known {
		return c, "", &DirError{e.dir, fmt.Errorf("%s: found no %s, wanted one: an older program made this run; finish it with that program, or start over with --fresh", runFile, accumulationKey)}
	}
	as := e.text(accumulationKey)
	if as == "" || as == state.AccumulateTree {
		return c, "", nil // what is none is refused as a changed setting
	}
	c.State.Accumulation, c.Settings = as, slices.Clone(c.Settings)
	c.Settings[i].Value, c.Settings[i].Origin = as, "as the run began"
	if c.State.Microbatches > 1 {
		said = fmt.Sprintf("%s %s, as this run began: gradients are added up in the order of their batches, and on one rank alone", accumulationKey, as)
	}
	return c, said, nil
}

// followEdition has the optimizer follow the rules that the run in the directory began with. What is wrong with its newest checkpoint is told where
// it is opened.
func (t *opening) followEdition() {
	steps, err := t.store.Steps()
	if err != nil || len(steps) == 0 {
		return
	}
	record, err := checkpoint.ReadRecord(t.config.State.FS, filepath.Join(t.store.Dir, checkpoint.DirName(steps[0])))
	if err != nil {
		return
	}
	begun, err := state.SavedOptimizer(record)
	if err != nil || begun.Name != t.config.State.Optimizer.Name {
		return
	}
	t.config.State.Optimizer = t.config.State.Optimizer.Following(begun)
	if what := begun.Earlier(); what != "" && t.config.leads() {
		t.note("optimizer", "", fmt.Sprintf("optimizer %s: %s, as this run began; new runs do otherwise", begun.Name, what))
	}
}
