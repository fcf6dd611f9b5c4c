package state_test

import (
	"context"
	"fmt"
	"math"

	"gputrain/run/data"
	"gputrain/state"
)

// An evaluation that shows how far it is, and ends as soon as the loss is known well enough.
func ExampleModel_Evaluations() {
	show := func(ctx context.Context, m *state.Model, e *data.Evaluation) error {
		for r, err := range m.Evaluations(ctx, e) {
			if err != nil {
				return err
			}
			fmt.Printf("%d tokens: perplexity %.2f\n", r.Tokens, math.Exp(r.Loss))
			if r.Tokens > 1_000_000 {
				break
			}
		}
		return nil
	}
	_ = show
}
