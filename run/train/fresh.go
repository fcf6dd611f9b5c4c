package train

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gputrain/internal/stranger"
	"gputrain/state/checkpoint"
)

// checkFresh refuses a fresh start that would remove what the run reads, or anything that is not a run's.
func (d *runDir) checkFresh(c Config) error {
	found, err := d.removable()
	if err != nil {
		return err
	}
	dir := resolved(d.path)
	for _, read := range c.reads() {
		path := resolved(read.Path)
		name, err := filepath.Rel(dir, path)
		if below(path, resolved(d.join(checkpointsDir))) || err == nil && slices.Contains(found.files, name) {
			return &DirError{d.path, fmt.Errorf("fresh start: %s: found %s, which would be removed; choose another run directory, or copy it out of this one",
				read.Key, read.Path)}
		}
	}
	return nil
}

// checkFile refuses a file that would take the place of another.
func (d *runDir) checkFile(f File, fresh bool) error {
	text, err := stranger.Read(d.join(f.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && (bytes.Equal(text, f.Text) || fresh && f.Ours(text)):
		return nil
	case err == nil && f.Ours(text):
		err = fmt.Errorf("%s: found one that another process has written meanwhile: the same command goes on with it", f.Name)
	case err == nil:
		err = fmt.Errorf("%s: found a file of others, wanted none: choose another directory, or move the file", f.Name)
	}
	return &DirError{d.path, err}
}

// removable is what a fresh start removes, but for event files of other programs. Where anything else would go with it, it is refused.
func (d *runDir) removable() (contents, error) {
	found, err := inspectDir(d.path)
	if err == nil && len(found.others) > 0 {
		err = foreignError(d.path, found.others)
	}
	if err != nil {
		return found, &DirError{d.path, fmt.Errorf("fresh start: %w", err)}
	}
	return found, nil
}

// bytesBelow is what the files below a directory, which may not be there, take.
func bytesBelow(dir string) (bytes uint64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += uint64(info.Size())
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return bytes, err
}

// remove removes the files of a run, name by name. Where anything else would go with them nothing is touched. What is left
// when it is cut short is still a run: checkpoints go first, and the record last.
func (d *runDir) remove() error {
	found, err := d.removable()
	if err != nil {
		return err
	}
	err = checkpoint.Store{FS: d.held(checkpoint.OS), Dir: d.join(checkpointsDir)}.Remove()
	d.yields = 0
	for _, name := range slices.Backward(found.files) {
		if err != nil {
			break
		}
		if filepath.Dir(name) == TensorBoardDir && !isEventFile(d.join(name)) {
			continue
		}
		if err = d.check(); err == nil {
			err = os.Remove(d.join(name))
		}
	}
	if info, gone := os.Lstat(d.join(TensorBoardDir)); err == nil && gone == nil && info.IsDir() { // and no link to another disk
		_ = os.Remove(d.join(TensorBoardDir)) // where nobody else has something there
	}
	_ = os.Remove(d.join(generationsDir)) // likewise
	if err != nil {
		return &DirError{d.path, fmt.Errorf("fresh start: %w", err)}
	}
	return nil
}
