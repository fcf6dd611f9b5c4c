package train

import (
	"context"
	"fmt"
	"strings"

	"gputrain/optim"
	"gputrain/state"
)

// leftOut says why the update of a step was not made; "" if it was.
func leftOut(m state.Metrics) string {
	if !m.Finite {
		return "not finite"
	}
	return m.Spikes.String()
}

// checkDivergence says which updates are left out, and ends a run that makes none any more.
func (t *trainer) checkDivergence(ctx context.Context, m state.Metrics, limits state.Limits) error {
	if m.Finite {
		t.run.InARow = 0
		if m.Spikes == 0 {
			return nil
		}
		g, patience := t.run.Guard, t.config.Spikes.Patience
		if g.InARow >= patience {
			return &DivergedError{Step: m.Step, Skipped: g.InARow, Spikes: m.Spikes, Loss: m.Loss, GradNorm: m.GradNorm}
		}
		t.say("step %d: %s: the update is left out (%d in a row, %d is the end)", m.Step, beyond(m, limits), g.InARow, patience)
		return nil
	}
	if t.run.InARow++; t.run.InARow >= t.config.NaNPatience {
		return t.diverged(ctx, m)
	}
	t.say("step %d: loss %v, gradient norm %v: the update is left out (%d in a row, %d is the end)", m.Step, m.Loss, m.GradNorm, t.run.InARow, t.config.NaNPatience)
	return nil
}

// beyond is "loss 9.1, beyond 4.2".
func beyond(m state.Metrics, limits state.Limits) string {
	var parts []string
	for _, f := range []struct {
		spike        optim.Spike
		value, limit float64
	}{{optim.SpikeLoss, m.Loss, limits.Loss}, {optim.SpikeGradNorm, m.GradNorm, limits.GradNorm}, {optim.SpikeUpdateNorm, m.UpdateNorm, limits.UpdateNorm}} {
		if m.Spikes&f.spike != 0 {
			parts = append(parts, fmt.Sprintf("%s %.4g, beyond %.4g", f.spike, f.value, f.limit))
		}
	}
	return strings.Join(parts, ", ")
}

// diverged finds the first tensor that is not finite, by reading them all once.
func (t *trainer) diverged(ctx context.Context, m state.Metrics) error {
	tensor, err := t.state.FirstNonFinite(ctx)
	if err != nil {
		t.team.apart = true
		return err
	}
	return &DivergedError{Step: m.Step, Skipped: t.run.InARow, Tensor: tensor, Loss: m.Loss, GradNorm: m.GradNorm}
}
