package checkpoint

import (
	"fmt"
	"path/filepath"
	"time"

	"gputrain/internal/caught"
)

// HostCopy is a checkpoint whose tensors have been copied to the memory of the host: training goes on while it is written. Its sources need no
// device, and may be written by any goroutine.
type HostCopy struct {
	Step    int64
	Sources []Source
}

// Saver writes checkpoints while training goes on, one at a time. It is used from one goroutine. Every outcome is given out once, by Wait, Done
// or Close: an error of a save is never lost.
type Saver struct {
	store Store
	under chan Saving // the save under way; nil where there is none
}

// Saving is the outcome of a save.
type Saving struct {
	Path    string // of the checkpoint
	Step    int64
	Removed []string // by the rotation that followed
	Took    time.Duration
	Err     error // of the save, or of the rotation
}

// NewSaver makes a saver of checkpoints in store.
func NewSaver(store Store) *Saver { return &Saver{store: store} }

// Start begins to write a checkpoint, and to rotate once it is committed. before, where there is one, comes first: what must be durable
// before the checkpoint is. While a save is under way, or its outcome not taken, it refuses.
func (s *Saver) Start(c HostCopy, keep Keep, before func() error) error {
	if s.under != nil {
		return fmt.Errorf("checkpoint: saver: step %d: the save before is under way, or its outcome not taken", c.Step)
	}
	// Its own, with room: the writer ends also where nobody takes the outcome.
	under := make(chan Saving, 1)
	s.under = under
	go func() {
		begin := time.Now()
		out := Saving{Path: filepath.Join(s.store.Dir, DirName(c.Step)), Step: c.Step}
		out.Err = caught.Do(func() (err error) {
			out.Removed, err = s.write(c, out.Path, keep, before)
			return err
		})
		out.Took = time.Since(begin)
		under <- out
	}()
	return nil
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
func (s *Saver) Wait() (Saving, bool) {
	if s.under == nil {
		return Saving{}, false
	}
	out := <-s.under
	s.under = nil
	return out, true
}

// Done is Wait that does not wait; false also where the save is not done.
func (s *Saver) Done() (Saving, bool) {
	select {
	case out := <-s.under: // never, where there is none
		s.under = nil
		return out, true
	default:
		return Saving{}, false
	}
}

// Close waits for the save under way and returns its error.
func (s *Saver) Close() error {
	out, _ := s.Wait()
	return out.Err
}
