package state

import (
	"context"
	"fmt"
	"time"

	"gputrain/data"
)

// Rehearse makes forward and backward pass of a step, without its update, times over, and tells how long one takes: a device that is given the
// next step while it computes one, as in training, does not wait for the host. The state and what it learns are
// none the wiser: every step makes its gradients anew. The first call also waits for whatever a driver compiles only when a kernel first runs.
func (s *TrainState) Rehearse(ctx context.Context, times int) (time.Duration, error) {
	took, err := s.rehearse(context.WithoutCancel(ctx), times)
	if err != nil {
		s.broken = err
		return 0, fmt.Errorf("state: rehearse: %w", err)
	}
	return took, nil
}

// rehearse makes the passes of one micro-batch: the others take as long.
func (s *TrainState) rehearse(ctx context.Context, times int) (time.Duration, error) {
	if err := s.settle(); err != nil {
		return 0, err
	}
	b := s.config.Rehearsal()
	if err := s.write(b.Tokens, b.Labels, int64(len(b.Labels)), 0); err != nil {
		return 0, err
	}
	if err := s.device.Wait(ctx); err != nil {
		return 0, err
	}
	begun := time.Now()
	for range times {
		if err := s.device.Submit(ctx, append(s.begin[:len(s.begin):len(s.begin)], s.compute)...); err != nil {
			return 0, err
		}
	}
	err := s.device.Wait(ctx)
	return time.Since(begun) * time.Duration(s.config.Accumulate) / time.Duration(times), err
}

// Rehearsal is a batch of one micro-batch to measure with, of tokens spread over the vocabulary.
func (c Config) Rehearsal() data.Batch {
	b := data.Batch{Tokens: make([]int32, c.Batch*c.Sequence), Labels: make([]int32, c.Batch*c.Sequence), Rows: c.Batch}
	for i := range b.Tokens {
		b.Tokens[i] = int32(uint64(i) * 7919 % uint64(c.Definition.Vocab()))
		b.Labels[i] = b.Tokens[i]
	}
	return b
}
