package state

import (
	"context"
	"fmt"

	"gputrain/checkpoint"
)

// CopyToHost copies the state to the host, which takes as much memory there until the result is dropped; run is what the loop wants to find
// again. What of it is not finite is found when it is written, as in Save.
func (s Snapshot) CopyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	sources, err := s.copied(ctx, run)
	if err != nil {
		return checkpoint.HostCopy{}, fmt.Errorf("state: copy of step %d: %w", s.Step, err)
	}
	return checkpoint.HostCopy{Step: s.Step, Sources: sources}, nil
}

// copied are the sources, with the bytes that tensors have now.
func (s Snapshot) copied(ctx context.Context, run checkpoint.Run) ([]checkpoint.Source, error) {
	t, err := s.tensors()
	if err != nil {
		return nil, err
	}
	for _, list := range [][]stored{t.weights, t.other, t.optimizer} {
		for i, t := range list {
			raw, err := t.read(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.scan, err)
			}
			list[i].read = func(context.Context) ([]byte, error) { return raw, nil }
		}
	}
	return s.files(context.WithoutCancel(ctx), t, run)
}
