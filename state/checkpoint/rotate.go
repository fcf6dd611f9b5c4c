package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Keep says which checkpoints rotation leaves, besides the newest and those that are being read.
type Keep struct {
	Last    int     // permanent ones of the highest steps; 0: all
	Best    int     // those with the lowest validation losses of their own steps
	Protect []int64 // those of these steps
}

// Rotate removes what is not to be kept: temporary checkpoints that have a newer one, and permanent ones. The newest whole checkpoint always
// stays, one that another process holds (Hold) until the next time, and one that somebody has put a file into. Call it after a commit. It returns the
// names removed. Checkpoints that are not whole are left for a person to see.
func (s Store) Rotate(keep Keep) ([]string, error) {
	all, err := s.records()
	if err != nil {
		return nil, err
	}
	best := bestOf(all, keep.Best)
	var removed []string
	permanent := 0
	for i, r := range all {
		if !r.Run.Temporary {
			permanent++
		}
		wanted := !r.Run.Temporary && (keep.Last <= 0 || permanent <= keep.Last)
		if i == 0 || wanted || slices.Contains(keep.Protect, r.Step) || slices.Contains(best, r.Step) {
			continue
		}
		ok, err := s.remove(r.path)
		if err != nil {
			return removed, storeError{fmt.Errorf("checkpoint: rotate %q: %w", r.path, err)}
		}
		if ok {
			removed = append(removed, filepath.Base(r.path))
		}
	}
	return removed, nil
}

// recorded is a whole checkpoint, as far as its manifest says, with its record.
type recorded struct {
	Record
	path string
}

// records are the whole checkpoints in their proper places, newest first.
func (s Store) records() ([]recorded, error) {
	all, err := s.entries()
	if err != nil {
		return nil, err
	}
	var out []recorded
	for _, e := range all {
		if _, err := readManifest(s.FS, e.path); err != nil || e.aside {
			continue
		}
		if r, err := ReadRecord(s.FS, e.path); err == nil {
			out = append(out, recorded{r, e.path})
		}
	}
	return out, nil
}

// bestOf are the steps of the n checkpoints with the lowest losses; of equal ones, the newest.
func bestOf(all []recorded, n int) []int64 {
	var measured []recorded
	for _, r := range all {
		if r.Step > 0 && r.Run.EvalStep == r.Step {
			measured = append(measured, r)
		}
	}
	slices.SortStableFunc(measured, func(a, b recorded) int { return cmp.Compare(a.Run.EvalLoss, b.Run.EvalLoss) })
	var steps []int64
	for _, r := range measured[:min(n, len(measured))] {
		steps = append(steps, r.Step)
	}
	return steps
}

// remove removes a checkpoint that nobody holds and that has nothing else in it. It is renamed first, so that an interrupted removal leaves no half checkpoint under a
// checkpoint's name.
func (s Store) remove(path string) (bool, error) {
	if replaceable(s.FS, path) != nil {
		return false, nil
	}
	lock, err := s.FS.Lock(manifestPath(path), true)
	if errors.Is(err, ErrInUse) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	doomed := path + temporarySuffix
	err = s.FS.Rename(path, doomed)
	if err == nil {
		err = s.FS.RemoveAll(doomed)
	}
	return err == nil, errors.Join(err, lock.Close())
}
