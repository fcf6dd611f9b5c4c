package train

import (
	"context"

	"gputrain/run/data"
	"gputrain/run/fit"
)

// evaluates tells whether there are evaluations: of a loss, or of what the model draws.
func (c Config) evaluates() bool { return c.Validation != nil && c.EvalEvery > 0 }

// evaluatesLoss tells whether they are of a loss.
func (c Config) evaluatesLoss() bool { return c.evaluates() && !c.learnsRollouts() }

// evaluation is over the windows of the validation data that are to be evaluated.
func (c Config) evaluation() (*data.Evaluation, error) {
	return data.NewEvaluation(c.Validation, c.State.Sequence, c.State.Evaluation, fit.EvaluationWindows(c.State, c.EvalTokens))
}

// withRows is the configuration with the batches of its evaluations.
func (c Config) withRows(ctx context.Context) Config {
	if (c.evaluatesLoss() || c.readsReference()) && c.State.Evaluation == 0 {
		c.State.Evaluation = fit.EvaluationRows(ctx, c.State, c.EvalTokens)
	}
	return c
}
