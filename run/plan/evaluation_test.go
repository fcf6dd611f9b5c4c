package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/state"
)

// All evaluations of a run together read at most half of what its training reads, in whole windows, unless one window is more.
func TestEvaluationTokens(t *testing.T) {
	of := state.Config{Batch: 2, Microbatches: 3, Sequence: 100} // 600 tokens a step
	pairs := of
	pairs.Objective.Loss = "sigmoid"
	for name, c := range map[string]struct {
		config       state.Config
		steps, every int64
		want         int64
	}{
		"a long run":         {of, 1000, 100, 5000},
		"the most":           {of, 200, 20, 5000}, // 60,000 / 10
		"one at the end":     {of, 10, 400, 3000},
		"in whole windows":   {of, 10, 3, 700}, // 3,000 / 4 is 750
		"one window":         {of, 1, 1, 300},
		"less than a window": {of, 4, 1, 300},
		"more than training": {state.Config{Batch: 1, Microbatches: 1, Sequence: 100}, 1, 1, 100},
		"whole pairs":        {pairs, 10, 3, 600},
		"none":               {of, 10, 0, 0},
	} {
		assert.Equal(t, c.want, evaluationTokens(c.config, c.steps, c.every, 5000), name)
	}
}
