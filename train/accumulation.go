package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"gputrain/internal/stranger"
	"gputrain/state"
)

// accumulationKey is the setting that says how the gradients of microbatches are added up.
const accumulationKey = "train.accumulation"

// accumulatingAs is the configuration with gradients added up as the run of the directory did, where the run file does not say how. said is what there is
// to say of that. A record without the key is of an older program, which did it in sequence and differed otherwise, too: it is refused.
func (c Config) accumulatingAs(dir string) (_ Config, said string, err error) {
	i := slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Key == accumulationKey && s.Origin == defaultOrigin })
	settings, err := storedSettings(dir)
	if i < 0 || err != nil || len(settings) == 0 {
		return c, "", err
	}
	stored, known := settings[accumulationKey]
	if !known {
		return c, "", &DirError{dir, fmt.Errorf("%s: found no %s, wanted one: an older program made this run; finish it with that program, or start over with --fresh", runFile, accumulationKey)}
	}
	var as string
	if json.Unmarshal([]byte(stored), &as) != nil || as == state.AccumulateTree {
		return c, "", nil // what is none is refused as a changed setting
	}
	c.State.Accumulation, c.Settings = as, slices.Clone(c.Settings)
	c.Settings[i].Value, c.Settings[i].Origin = as, "as the run began"
	if c.State.Microbatches > 1 {
		said = fmt.Sprintf("%s %s, as this run began: gradients are added up in the order of their batches, and on one rank alone", accumulationKey, as)
	}
	return c, said, nil
}

// storedSettings are those of the run of a directory, in JSON by their keys; nil where there are none.
func storedSettings(dir string) (map[string]string, error) {
	text, err := stranger.Read(filepath.Join(dir, runFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("train: run directory: %w", err)
	}
	settings, err := flatten(text)
	if err != nil {
		return nil, fmt.Errorf("train: run directory %q: %s: %w", dir, runFile, err)
	}
	return settings, nil
}
