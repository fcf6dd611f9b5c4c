package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"gputrain/hub"
	"gputrain/model"
)

// Read is a file or a directory that a run reads, and the key of the setting that names it.
type Read struct{ Key, Path string }

// reads are all that a run reads: directories that it begins with as they were found, such as the checkpoint that a run directory stands for, and the
// bases of the model's.
func (c Config) reads() (all []Read) {
	if c.From != "" {
		all = append(all, Read{modelFrom, c.From})
		for _, dir := range hub.Bases(c.From) {
			all = append(all, Read{modelFrom, dir})
		}
	}
	if c.LoRA.From != "" {
		all = append(all, Read{"lora.from", c.LoRA.From})
	}
	return append(all, c.Reads...)
}

// advised makes an error that advises a fresh start not advise one that is refused.
func (d *runDir) advised(c Config, err error) error {
	if changed, ok := errors.AsType[*ChangedError](err); ok {
		changed.NotFresh = d.checkFresh(c) != nil
	}
	return err
}

// checkBase refuses a base that lies in the run's own directory, where checkpoints come and go.
func (c Config) checkBase() error {
	if c.State.Base == "" {
		return nil
	}
	own := resolved(c.Dir)
	for _, dir := range append([]string{c.State.Base}, hub.Bases(c.State.Base)...) {
		if below(resolved(dir), own) {
			if model.AdapterParams(c.State.Definition) != nil {
				return &DirError{c.Dir, fmt.Errorf("model.from: found what the adapters belong to in %s, wanted it outside of the run's own directory, where checkpoints are removed: choose another run directory", dir)}
			}
			return &DirError{c.Dir, fmt.Errorf("train.save_frozen: found false and the frozen parameters in %s, wanted them outside of the run's own directory, where checkpoints are removed: choose another run directory, or true", dir)}
		}
	}
	return nil
}

// below tells whether a path is a directory, or lies below it.
func below(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == filepath.Separator || strings.HasSuffix(dir, string(filepath.Separator)))
}

// resolved is an absolute path without links, as far as it is there. Behind a link, .. leads elsewhere than in a path without both.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
