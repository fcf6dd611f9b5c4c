package train

import (
	"context"
	"fmt"
	"slices"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/run/fit"
	"gputrain/state"
)

// recomputeKey is the setting that says what backward passes compute again.
const recomputeKey = "train.recompute"

// fit plans what the stages are to take. It decides what is computed again where that is left to the memory there is, and says it. run.yaml records
// it: a run that goes on computes again what it did, and more if it has to.
func (t *opening) fit(ctx context.Context) error {
	c := &t.config
	job, err := state.NewJob(c.State)
	if err != nil {
		return err
	}
	choices, had, auto := job.Choices(), "", job.Recompute == state.RecomputeAuto
	if auto {
		e, err := t.earlierRecord()
		if err != nil {
			return err
		}
		had = e.text(recomputeKey)
	}
	kept := uint64(0) // by the first choice of all
	from := max(0, slices.Index(model.Recomputes, had))
	err = t.team.target.Plan(ctx, choices[from:], func(found fit.Takes) (more bool, err error) {
		if c.State, t.reporter.takes = found.Job.Config, found; kept == 0 && from == 0 {
			kept = found.Bytes()
		}
		return !found.Fits, nil
	})
	if err != nil {
		return err
	}
	t.planCopy()
	if short := t.reporter.takes.Job.ShortPool(); short != "" {
		t.note("texts at once", "texts at once: ", short)
	}
	if !auto {
		return nil
	}
	what := c.State.Recompute
	c.Settings = slices.Clone(c.Settings)
	for i, s := range c.Settings {
		if s.Key == recomputeKey {
			c.Settings[i].Value, c.Settings[i].Origin = what, fmt.Sprintf("%s of %s", state.RecomputeAuto, s.Origin)
		}
	}
	if what == model.RecomputeNone {
		return nil
	}
	if from > 0 { // the run has begun with less
		err := t.team.target.Plan(ctx, choices[:1], func(found fit.Takes) (more bool, err error) {
			kept = found.Bytes()
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s, which takes %s instead of %s", what, gpu.SizeText(t.reporter.takes.Bytes()), gpu.SizeText(kept))
	if what == had {
		text += ", as before"
	}
	t.note("recompute", recomputeKey+" ", text)
	return nil
}

// planCopy decides whether training goes on while a checkpoint is written: where there is room for a copy of it.
func (t *opening) planCopy() {
	h := t.reporter.takes.Host
	t.saves.copies = h.Copies(t.config.SaveAsync)
	if !t.saves.copies {
		h.Copy = 0
	}
	t.reporter.facts.add("host memory planned", "%s", h)
	if !t.saves.copies && t.config.SaveAsync && t.config.leads() {
		t.note("checkpoints", "train.save_async: ", fmt.Sprintf("a copy of a checkpoint takes %s, the host has %s left: training waits while a checkpoint is written",
			gpu.SizeText(t.reporter.takes.Host.Copy), gpu.SizeText(h.Free)))
	}
}
