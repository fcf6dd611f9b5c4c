package fit

import (
	"context"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/state"
)

// EvaluationWindows is how many sequences an evaluation of at most so many tokens reads; 0: all.
func EvaluationWindows(c state.Config, tokens int64) int {
	if tokens == 0 {
		return 0
	}
	return int(max(1, tokens/int64(c.Sequence)))
}

// enoughTokens is what a batch of an evaluation has: with fewer, processors wait more between kernels than they compute.
const enoughTokens = 1024

// EvaluationRows is the number of sequences in a batch of an evaluation that reads at most so many tokens (0: all). It is that of a step's
// batch or, where that has fewer than 1,024 tokens, as many as make these, unless their pass takes more memory than a step. The loss does
// not depend on it but for the order of its sum.
func EvaluationRows(ctx context.Context, c state.Config, tokens int64) int {
	if c.Objective.Row().Whole { // whose loss depends on it
		return c.Batch
	}
	rows := max(c.Batch, (enoughTokens+c.Sequence-1)/c.Sequence)
	if windows := EvaluationWindows(c, tokens); windows > 0 {
		rows = min(rows, windows)
	}
	if group := c.Objective.Row().Group; group > 1 {
		return max(c.Batch, rows/group*group) // whole groups
	}
	if rows <= c.Batch {
		return rows
	}
	// Planned for a device of no kind in particular: a run has the same batches wherever it goes on, on any number of
	// ranks, whatever it computes again.
	c.Recompute, c.Mesh, c.Reducer = model.RecomputeNone, nil, nil
	job, err := state.NewJob(c)
	if err != nil {
		return c.Batch // an error is said where the run's own devices are planned for
	}
	step, err := job.StepBytes(ctx, gpu.DefaultLimits())
	for ; err == nil && rows > c.Batch; rows /= 2 {
		bytes, failed := job.EvaluationBytes(ctx, rows, gpu.DefaultLimits())
		if err = failed; err == nil && bytes <= step {
			return rows
		}
	}
	return c.Batch
}
