package train

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/state"
)

// recomputeKey is the setting that says what backward passes compute again.
const recomputeKey = "train.recompute"

// fit decides what is computed again where that is left to the memory there is, and says it. run.yaml records it: a run that goes on computes
// again what it did, and more if it has to.
func (t *opening) fit(ctx context.Context) error {
	c := &t.config
	if c.State.Recompute != state.RecomputeAuto {
		return nil
	}
	had, err := t.recomputed()
	if err != nil {
		return err
	}
	asked, choices := c.State, c.State.Choices()
	for _, c.State = range choices[max(0, slices.Index(model.Recomputes, had)):] {
		if fits, err := t.team.target.Fits(ctx, c.State); err != nil {
			return err
		} else if fits {
			break
		}
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
	kept, err := t.planBytes(ctx, asked)
	if err != nil {
		return err
	}
	takes, err := t.planBytes(ctx, c.State)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s, which takes %s instead of %s", what, gpu.SizeText(takes), gpu.SizeText(kept))
	if what == had {
		text += ", as before"
	}
	t.say("%s %s", recomputeKey, text)
	t.reporter.facts.add("recompute", "%s", text)
	return nil
}

// planBytes is what the stages are to take together.
func (t *opening) planBytes(ctx context.Context, c state.Config) (total uint64, err error) {
	stages, err := t.team.target.Plan(ctx, c)
	for _, s := range stages {
		total += s.Bytes
	}
	return total, err
}

// recomputed is what the run of the directory computed again; "" where there is none.
func (t *opening) recomputed() (what string, err error) {
	settings, err := storedSettings(t.config.Dir)
	if json.Unmarshal([]byte(settings[recomputeKey]), &what) != nil {
		return "", err // none
	}
	return what, err
}
