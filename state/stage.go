package state

import (
	"context"
	"fmt"
)

// Staged is a checkpoint whose tensors have been copied to the memory of the host: training goes on while it is written.
type Staged struct {
	fs      FileSystem
	step    int64
	sources []source
}

// Stage copies the state to the host, which takes as much memory there until the result is dropped; run is what the loop wants to find again.
// Whether it is finite and whether there is room on the disk, Save tells.
func (s Snapshot) Stage(ctx context.Context, run Run) (*Staged, error) {
	out, err := s.stage(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("state: copy of step %d: %w", s.Step, err)
	}
	return out, nil
}

func (s Snapshot) stage(ctx context.Context, run Run) (*Staged, error) {
	t, err := s.tensors()
	if err != nil {
		return nil, err
	}
	out := &Staged{fs: s.fs(), step: s.Step}
	for _, list := range [][]stored{t.weights, t.other, t.optimizer} {
		for i, t := range list {
			raw, err := t.read(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.scan, err)
			}
			list[i].read = func(context.Context) ([]byte, error) { return raw, nil }
		}
	}
	out.sources, err = s.files(context.WithoutCancel(ctx), t, run)
	return out, err
}

// Save writes the checkpoint directory path as Snapshot.Save does.
func (s *Staged) Save(path string) error { return commit(s.fs, path, s.step, s.sources) }
