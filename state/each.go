package state

import (
	"context"
	"fmt"
)

// EachLogits gives, for each token of a window of at most Window tokens, in their order, the logits of the token that follows. An error of yield ends it. The host
// has logits of one piece of the window at a time.
func (m *Model) EachLogits(ctx context.Context, window []int32, yield func(at int, logits []float32) error) error {
	if err := m.check(window); err != nil {
		return fmt.Errorf("state: logits: %w", err)
	}
	vocab, next := m.vocab, 0
	for _, piece := range m.pieces(window, 0) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		piece.pass = eachPass
		all, err := m.passes.Take(ctx, piece)
		if err != nil {
			return fmt.Errorf("state: logits: %w", err)
		}
		for i, at := range piece.positions {
			if int(at) != next || next == len(window) {
				continue // seen before, or behind the end
			}
			if err := yield(next, all[i*vocab:(i+1)*vocab]); err != nil {
				return err
			}
			next++
		}
	}
	return nil
}
