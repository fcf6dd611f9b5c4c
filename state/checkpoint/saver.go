package checkpoint

import (
	"fmt"
	"path/filepath"
	"time"

	"gputrain/internal/caught"
)

// HostCopy is a checkpoint whose tensors have been copied to the memory of the host: training goes on while it is written. Its sources need no
// device, and may be written by any goroutine, until it is released.
type HostCopy struct {
	Step    int64
	Sources []Source
	Release func() // gives the memory back; nil: the sources take none
}

// Saver writes checkpoints while training goes on, one at a time. It is used from one goroutine. Every outcome is given out once, by Wait or
// Done: an error of a save is never lost.
type Saver struct {
	store Store
	under chan saving // the save under way; nil where there is none
}

// saving is the outcome of a save.
type saving struct {
	Path    string // of the checkpoint
	Step    int64
	Removed []string // by the rotation that followed
	Took    time.Duration
	Err     error // of the save, or of the rotation
}

// NewSaver makes a saver of checkpoints in store.
func NewSaver(store Store) *Saver { return &Saver{store: store} }

// Start begins to write a checkpoint, and to rotate once it is committed. before, where there is one, comes first: what must be durable
// before the checkpoint is. The copy is released as soon as it is written. While a save is under way, or its outcome not taken, it refuses.
func (s *Saver) Start(c HostCopy, keep Keep, before func() error) error {
	if err := s.begin(c); err != nil {
		return err
	}
	under := s.under
	go func() { under <- s.saving(c, keep, before) }()
	return nil
}

// Write is Start that returns once the checkpoint is written, whose sources may need a device. The outcome is yet to be taken.
func (s *Saver) Write(c HostCopy, keep Keep, before func() error) error {
	if err := s.begin(c); err != nil {
		return err
	}
	s.under <- s.saving(c, keep, before)
	return nil
}

func (s *Saver) begin(c HostCopy) error {
	if s.under != nil {
		return fmt.Errorf("checkpoint: saver: step %d: the save before is under way, or its outcome not taken", c.Step)
	}
	s.under = make(chan saving, 1) // its own, with room: the writer ends also where nobody takes the outcome
	return nil
}

// saving writes a checkpoint.
func (s *Saver) saving(c HostCopy, keep Keep, before func() error) saving {
	begin := time.Now()
	out := saving{Path: filepath.Join(s.store.Dir, DirName(c.Step)), Step: c.Step}
	out.Err = caught.Do(func() (err error) {
		if c.Release != nil {
			defer c.Release()
		}
		out.Removed, err = s.write(c, out.Path, keep, before)
		return err
	})
	out.Took = time.Since(begin)
	return out
}

func (s *Saver) write(c HostCopy, path string, keep Keep, before func() error) (removed []string, err error) {
	if before != nil {
		if err := before(); err != nil {
			return nil, err
		}
	}
	if err := Commit(s.store.FS, path, c.Step, c.Sources); err != nil {
		return nil, err
	}
	return s.store.Rotate(keep)
}

// Wait waits for the save under way; false: there is none.
func (s *Saver) Wait() (saving, bool) {
	if s.under == nil {
		return saving{}, false
	}
	out := <-s.under
	s.under = nil
	return out, true
}

// Done is Wait that does not wait; false also where the save is not done.
func (s *Saver) Done() (saving, bool) {
	select {
	case out := <-s.under: // never, where there is none
		s.under = nil
		return out, true
	default:
		return saving{}, false
	}
}
