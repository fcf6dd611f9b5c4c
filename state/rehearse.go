package state

import (
	"context"
	"fmt"
	"time"

	"gputrain/data"
)

// Rehearse makes forward and backward passes of a step, without its update, times over, and tells how long those of a step take. The state is as
// before: every step makes its gradients anew. The first call also waits for whatever a driver compiles only when a kernel first runs.
func (s *TrainState) Rehearse(ctx context.Context, times int) (time.Duration, error) {
	err := s.settle()
	if err == nil {
		var took time.Duration
		if took, err = s.passes.Rehearse(context.WithoutCancel(ctx), times); err == nil {
			return took, nil
		}
		s.broken = err
	}
	return 0, fmt.Errorf("state: rehearse: %w", err)
}

// Rehearsal is one microbatch to measure with, of tokens spread over the vocabulary.
func (c Config) Rehearsal() data.Batch {
	b := data.Batch{Tokens: make([]int32, c.Batch*c.Sequence), Labels: make([]int32, c.Batch*c.Sequence), Rows: c.Batch}
	for i := range b.Tokens {
		b.Tokens[i] = int32(uint64(i) * 7919 % uint64(c.Definition.Vocab()))
		b.Labels[i] = b.Tokens[i]
	}
	return b
}
