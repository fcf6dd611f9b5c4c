package train

import (
	"context"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state"
)

// evaluates tells whether there are evaluations.
func (c Config) evaluates() bool { return c.Validation != nil && c.EvalEvery > 0 }

// evaluation is over the windows of the validation data that are to be evaluated.
func (c Config) evaluation() (*data.Evaluation, error) {
	return data.NewEvaluation(c.Validation, c.State.Sequence, c.State.Evaluation, evaluationWindows(c.State, c.EvalTokens))
}

// evaluationWindows is how many sequences an evaluation of at most so many tokens reads; 0: all.
func evaluationWindows(c state.Config, tokens int64) int {
	if tokens == 0 {
		return 0
	}
	return int(max(1, tokens/int64(c.Sequence)))
}

// EvaluationTokens is how many tokens an evaluation reads at most where nobody says it: no more than most, and in all evaluations of a run half of what
// its training reads, so that they take about a sixth of its time, as a forward pass is a third of a step. 0: there is no evaluation.
func EvaluationTokens(c state.Config, steps, every, most int64) int64 {
	if every == 0 {
		return 0
	}
	read := steps * int64(c.Batch*c.Microbatches*c.Sequence)
	tokens := read / 2 / max(1, timesDue(0, steps, every))
	piece := int64(c.Objective.Row().Group * c.Sequence) // whole groups
	return min(most, max(piece, tokens/piece*piece))
}

// evaluationTokens is what a batch of an evaluation has: with fewer, processors wait more between kernels than they compute.
const evaluationTokens = 1024

// EvaluationRows is the number of sequences in a batch of an evaluation that reads at most so many tokens (0: all). It is that of a step's
// batch or, where that has fewer than 1,024 tokens, as many as make these, unless their pass takes more memory than a step. The loss does
// not depend on it but for the order of its sum.
func EvaluationRows(ctx context.Context, c state.Config, tokens int64) int {
	rows := max(c.Batch, (evaluationTokens+c.Sequence-1)/c.Sequence)
	if windows := evaluationWindows(c, tokens); windows > 0 {
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

// withRows is the configuration with the batches of its evaluations.
func (c Config) withRows(ctx context.Context) Config {
	if c.evaluates() && c.State.Evaluation == 0 {
		c.State.Evaluation = EvaluationRows(ctx, c.State, c.EvalTokens)
	}
	return c
}
