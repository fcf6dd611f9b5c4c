package train

import (
	"fmt"
	"path/filepath"
	"slices"

	"gputrain/state/checkpoint"
)

// A run with Patience ends once so many evaluations in a row were no better than the best one. How many there were follows from the steps of evaluations,
// which checkpoints and logs have: a run that goes on counts on, and all ranks count alike.

// waited is how many evaluations have come since the best, or since the run was rescheduled; the present step has been evaluated.
func (t *trainer) waited() int64 {
	every := t.config.EvalEvery
	return t.state.Step()/every - max(t.run.BestStep, t.since)/every
}

// early tells whether the run is over before all its steps are made.
func (t *trainer) early() bool {
	c, step := t.config, t.state.Step()
	return c.Patience > 0 && c.evaluates() && step > 0 && step < c.Steps && t.evaluated == step && t.waited() >= c.Patience
}

// ends tells whether the present step is the last.
func (t *trainer) ends() bool { return t.state.Step() >= t.config.Steps || t.early() }

// reason is how the run ends with an error, or without, and why, where that is before all its steps are made.
func (t *trainer) reason(err error) (kind Kind, why string) {
	if err != nil || !t.early() {
		return KindOf(err), ""
	}
	return kindEarly, t.why()
}

// why says why the run is over early.
func (t *trainer) why() string {
	text := fmt.Sprintf("%s evaluations in a row", grouped(t.waited()))
	if t.run.BestStep == 0 {
		return text + " without a finite loss"
	}
	best := fmt.Sprintf("loss %.4f", t.run.BestLoss)
	if t.rollouts != nil {
		best = fmt.Sprintf("reward %.4f", 0-t.run.BestLoss)
	}
	return fmt.Sprintf("%s no better than that of step %s (%s)", text, grouped(t.run.BestStep), best)
}

// tellEarly says that the run is over before all its steps are made, which checkpoint is the best, and how it would go on.
func (t *trainer) tellEarly() {
	best := ""
	if step := t.run.BestStep; step > 0 {
		best = fmt.Sprintf("no checkpoint of step %s was kept (train.save_every)", grouped(step))
		if steps, err := t.store.Steps(); err == nil && slices.Contains(steps, step) {
			best = "the best checkpoint is " + filepath.Join(t.store.Dir, checkpoint.DirName(step))
		}
		best = "; " + best
	}
	t.say("stopped early at step %s of %s: %s%s; a train.patience of more than %d goes on", grouped(t.state.Step()), grouped(t.config.Steps), t.why(), best, t.waited())
}
