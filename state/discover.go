package state

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

// Checkpoints is a directory of checkpoints, the `checkpoints` of a run directory.
type Checkpoints struct {
	FS  FileSystem
	Dir string
}

// Found is the outcome of a search.
type Found struct {
	Path     string      // the newest whole checkpoint; "" when there has never been any
	Step     int64       // its step
	Rejected []Rejection // newer ones that are not whole: whoever continues from Path must say so
}

// Rejection is a checkpoint that was passed over, and why.
type Rejection struct {
	Path string
	Err  error
}

// String is the decision in one line.
func (r Rejection) String() string { return fmt.Sprintf("passed over %s: %v", r.Path, r.Err) }

// entry is a directory that may be a checkpoint.
type entry struct {
	path  string
	step  int64
	aside bool // it stepped aside for another of the same step
}

// entries lists the candidates, newest first; of one step, the one in its proper place first. Time stamps decide nothing.
func (c Checkpoints) entries() ([]entry, error) {
	names, err := c.FS.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, checkpointError{fmt.Errorf("state: discover %q: %w", c.Dir, err)}
	}
	var found []entry
	for _, name := range names {
		base, aside := strings.CutSuffix(name, replacedSuffix)
		digits, ok := strings.CutPrefix(base, "step-")
		if !ok {
			continue
		}
		step, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || DirName(step) != base {
			continue
		}
		found = append(found, entry{path: filepath.Join(c.Dir, name), step: step, aside: aside})
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

// Steps lists the steps that there are checkpoints of, whole or not, newest first.
func (c Checkpoints) Steps() ([]int64, error) {
	all, err := c.entries()
	var steps []int64
	for _, e := range all {
		steps = append(steps, e.step)
	}
	return slices.Compact(steps), err
}

// Newest finds the checkpoint of the highest step whose files and tensors all agree with its manifest. Newer ones that do not are
// listed in Rejected. When there are checkpoints and none is whole the error wraps ErrCorrupt (or ErrVersion): nothing is
// started afresh behind the user's back.
func (c Checkpoints) Newest() (Found, error) {
	found, release, err := c.Hold()
	if err != nil {
		return found, err
	}
	return found, release()
}

// Clean removes what an interrupted save or removal has left: temporary directories, and checkpoints that stepped aside for one that
// arrived (one whose successor did not arrive goes back to its place). It returns the names removed.
func (c Checkpoints) Clean() ([]string, error) {
	names, err := c.FS.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state: clean %q: %w", c.Dir, err)
	}
	var removed []string
	for _, name := range names {
		path := filepath.Join(c.Dir, name)
		base, aside := strings.CutSuffix(name, replacedSuffix)
		switch {
		case strings.HasPrefix(name, "step-") && strings.HasSuffix(name, temporarySuffix):
		case aside && strings.HasPrefix(name, "step-"):
			if !slices.Contains(names, base) {
				if err := c.FS.Rename(path, filepath.Join(c.Dir, base)); err != nil {
					return removed, fmt.Errorf("state: clean %q: %w", c.Dir, err)
				}
				continue
			}
		default:
			continue
		}
		if err := c.FS.RemoveAll(path); err != nil {
			return removed, fmt.Errorf("state: clean %q: %w", c.Dir, err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}
