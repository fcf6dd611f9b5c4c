package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Rehearse makes forward and backward pass of a step, without its update, times over, and tells how long one takes; see state.TrainState.
func (s *State) Rehearse(ctx context.Context, times int) (time.Duration, error) {
	if err := s.usable(); err != nil {
		return 0, fmt.Errorf("pipeline: rehearse: %w", err)
	}
	c := s.config.State
	b := c.Rehearsal()
	b.Tokens, b.Labels = slices.Repeat(b.Tokens, c.Accumulate), slices.Repeat(b.Labels, c.Accumulate)
	begun := time.Now()
	for range times {
		err := s.training.run(context.WithoutCancel(ctx), s.training.schedule, s.feed(b, int64(len(b.Labels))), s.begin, s.config.Timeout, nil)
		if err != nil {
			s.broken = err
			return 0, fmt.Errorf("pipeline: rehearse: %w", err)
		}
	}
	took := time.Since(begun) / time.Duration(times)
	for _, d := range s.devices {
		if err := d.Wait(ctx); err != nil {
			s.broken = err
			return 0, fmt.Errorf("pipeline: rehearse: %w", err)
		}
	}
	return took, nil
}
