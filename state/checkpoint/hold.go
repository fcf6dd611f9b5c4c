package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
)

// Hold keeps rotation, of this process or another one, from the checkpoint in dir until release is called: for those who read it. A directory
// without a manifest, which is a model and no checkpoint, needs no holding. One that is being removed is ErrInUse.
func Hold(fsys FileSystem, dir string) (release func() error, err error) {
	nothing := func() error { return nil }
	if _, err := fsys.Size(manifestPath(dir)); errors.Is(err, fs.ErrNotExist) {
		return nothing, nil
	} else if err != nil {
		return nil, loadError(dir, "%w", err)
	}
	lock, err := fsys.Lock(manifestPath(dir), false)
	if err != nil {
		return nil, loadError(dir, "%w", err)
	}
	// What was removed before it was locked has another name by now.
	if _, err := fsys.Size(manifestPath(dir)); err != nil {
		return nil, errors.Join(loadError(dir, "%w: %w", ErrInUse, err), lock.Close())
	}
	return lock.Close, nil
}

// Hold is Newest, and holds what it has found until release is called.
func (s Store) Hold() (found discovery, release func() error, err error) {
	all, err := s.entries()
	if err != nil {
		return discovery{}, nil, err
	}
	for _, e := range all {
		release, err := Hold(s.FS, e.path)
		if err == nil {
			if err = Verify(s.FS, e.path); err == nil {
				found.Path, found.Step = e.path, e.step
				return found, release, nil
			}
			err = errors.Join(err, release())
		}
		found.Rejected = append(found.Rejected, rejection{Path: e.path, Err: err})
	}
	if len(found.Rejected) > 0 {
		return found, nil, fmt.Errorf("checkpoint: discover %q: none of %d checkpoints is whole: %w", s.Dir, len(all), found.Rejected[0].Err)
	}
	return found, func() error { return nil }, nil
}

// Scale is what a loop with products of f16 remembers of the scale of its loss: the power of two 2^Exponent, and how many steps in a row have had a finite
// gradient since it was last changed, without the newest steps, which do not count yet.
type Scale struct {
	Exponent int          `json:"exponent"`
	Good     int64        `json:"good,omitempty"`
	Newest   []ScaledStep `json:"newest,omitempty"` // oldest first
}

// ScaledStep is a step whose gradient was of a scaled loss.
type ScaledStep struct {
	Step     int64 `json:"step"`
	Exponent int   `json:"exponent"`
	Finite   bool  `json:"finite"`
}

// Guard is what a loop that leaves out updates beyond the usual remembers of the steps whose update was made, oldest first. What it
// does not look at has no numbers.
type Guard struct {
	Steps      []int64   `json:"steps,omitempty"`
	Loss       []float64 `json:"loss,omitempty"`
	GradNorm   []float64 `json:"grad_norm,omitempty"`
	UpdateNorm []float64 `json:"update_norm,omitempty"`
	InARow     int64     `json:"in_a_row,omitempty"` // updates left out in a row up to this step
	Spikes     int64     `json:"spikes,omitempty"`   // updates left out so far
}
