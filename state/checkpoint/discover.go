package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DirName is the name of the checkpoint of a step, `step-00000100`: names sort as steps do.
func DirName(step int64) string { return fmt.Sprintf("step-%08d", step) }

// Store is a directory of checkpoints, the `checkpoints` of a run directory.
type Store struct {
	FS  FileSystem
	Dir string
}

// discovery is the outcome of a search.
type discovery struct {
	Path     string      // the newest whole checkpoint; "" when there has never been any
	Step     int64       // its step
	Rejected []rejection // newer ones that are not whole: whoever continues from Path must say so
}

// rejection is a checkpoint that was passed over, and why.
type rejection struct {
	Path string
	Err  error
}

// String is the decision in one line.
func (r rejection) String() string { return fmt.Sprintf("passed over %s: %v", r.Path, r.Err) }

// entry is a directory that may be a checkpoint.
type entry struct {
	path  string
	step  int64
	aside bool // it stepped aside for another of the same step
}

// entries lists the candidates, newest first; of one step, the one in its proper place first. Time stamps decide nothing.
func (s Store) entries() ([]entry, error) {
	names, err := s.FS.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storeError{fmt.Errorf("checkpoint: discover %q: %w", s.Dir, err)}
	}
	var found []entry
	for _, name := range names {
		base, aside := strings.CutSuffix(name, replacedSuffix)
		if step, ok := stepOf(base); ok {
			found = append(found, entry{path: filepath.Join(s.Dir, name), step: step, aside: aside})
		}
	}
	slices.SortFunc(found, func(a, b entry) int {
		if a.step != b.step {
			if a.step > b.step {
				return -1
			}
			return 1
		}
		if a.aside {
			return 1
		}
		return -1
	})
	return found, nil
}

// stepOf is the step of a checkpoint's name.
func stepOf(name string) (step int64, ok bool) {
	digits, ok := strings.CutPrefix(name, "step-")
	if !ok {
		return 0, false
	}
	step, err := strconv.ParseInt(digits, 10, 64)
	return step, err == nil && DirName(step) == name
}

// Steps lists the steps that there are checkpoints of, whole or not, newest first.
func (s Store) Steps() ([]int64, error) {
	all, err := s.entries()
	var steps []int64
	for _, e := range all {
		steps = append(steps, e.step)
	}
	return slices.Compact(steps), err
}

// Newest finds the checkpoint of the highest step whose files and tensors all agree with its manifest. Newer ones that do not are
// listed in Rejected. When there are checkpoints and none is whole the error wraps ErrCorrupt (or ErrVersion): nothing is
// started afresh behind the user's back.
func (s Store) Newest() (discovery, error) {
	found, release, err := s.Hold()
	if err != nil {
		return found, err
	}
	return found, release()
}

// Clean removes what an interrupted save or removal has left: temporary directories, and checkpoints that stepped aside for one that
// arrived (one whose successor did not arrive goes back to its place). It returns the names removed. What has files in it that no checkpoint
// has is left alone.
func (s Store) Clean() ([]string, error) {
	names, err := s.FS.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: clean %q: %w", s.Dir, err)
	}
	var removed []string
	for _, name := range names {
		path := filepath.Join(s.Dir, name)
		base, left := leftOf(name)
		if !left {
			continue
		}
		var err error
		if strings.HasSuffix(name, replacedSuffix) && !slices.Contains(names, base) {
			err = s.FS.Rename(path, filepath.Join(s.Dir, base))
		} else if replaceable(s.FS, path) == nil {
			err = s.FS.RemoveAll(path)
			removed = append(removed, name)
		}
		if err != nil {
			return removed, fmt.Errorf("checkpoint: clean %q: %w", s.Dir, err)
		}
	}
	return removed, nil
}

// leftOf tells the name of a checkpoint from that of what an interrupted save or removal of it has left.
func leftOf(name string) (base string, left bool) {
	for _, suffix := range []string{temporarySuffix, replacedSuffix} {
		if base, cut := strings.CutSuffix(name, suffix); cut {
			_, left = stepOf(base)
			return base, left
		}
	}
	return name, false
}

// Others lists what is in the directory, and in the checkpoints there, and is not of checkpoints.
func (s Store) Others() (others []string, err error) {
	names, err := s.FS.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		path := filepath.Join(s.Dir, name)
		base, _ := leftOf(name)
		inside, err := othersIn(s.FS, path)
		if _, ok := stepOf(base); !ok || err != nil {
			inside = []string{path}
		}
		others = append(others, inside...)
	}
	if err != nil {
		return nil, storeError{fmt.Errorf("checkpoint: discover %q: %w", s.Dir, err)}
	}
	return others, nil
}

// Remove removes all checkpoints; the directory, which may be a link to another disk, stays. Where there is anything else in it, nothing is touched,
// and the error names it.
func (s Store) Remove() error {
	others, err := s.Others()
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("found %q, wanted checkpoints alone: what is there would be removed: %w", others[0], fs.ErrExist)
	}
	names, gone := s.FS.ReadDir(s.Dir)
	if err == nil && !errors.Is(gone, fs.ErrNotExist) {
		err = gone
	}
	for _, name := range names { // the newest last, and none is left in part
		path := filepath.Join(s.Dir, name)
		if _, left := leftOf(name); !left && err == nil {
			doomed := path + temporarySuffix
			if err = s.FS.RemoveAll(doomed); err == nil {
				err = s.FS.Rename(path, doomed)
			}
			path = doomed
		}
		if err == nil {
			err = s.FS.RemoveAll(path)
		}
	}
	if err != nil {
		return storeError{fmt.Errorf("checkpoint: remove %q: %w", s.Dir, err)}
	}
	return nil
}
