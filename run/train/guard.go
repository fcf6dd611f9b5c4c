package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/optim"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// guard leaves out updates that are beyond the usual.
type guard struct{ SpikeConfig }

func (c guard) on() bool { return c.Loss > 0 || c.GradNorm > 0 || c.UpdateNorm > 0 }

// guardLag is the number of steps up to the one in hand whose metrics do not count in its limits: they may be in flight, or not, and what the
// limits are made of must not depend on that.
const guardLag = 3

// leastDeviation is the share of the mean that a standard deviation is at least.
const leastDeviation = 0.01

// limits are those of a step, made of what g remembers.
func (c guard) limits(g *checkpoint.Guard, step int64) state.Limits {
	if !c.on() || g == nil {
		return state.Limits{}
	}
	n := len(g.Steps)
	for n > 0 && g.Steps[n-1] > step-guardLag {
		n--
	}
	if n < c.Window {
		return state.Limits{}
	}
	limit := func(values []float64, score float64) float64 {
		if score == 0 {
			return 0
		}
		return limitOf(values[n-c.Window:n], score)
	}
	return state.Limits{
		Loss: limit(g.Loss, c.Loss), GradNorm: limit(g.GradNorm, c.GradNorm), UpdateNorm: limit(g.UpdateNorm, c.UpdateNorm),
	}
}

// limitOf is the mean and score standard deviations.
func limitOf(values []float64, score float64) float64 {
	mean, squares := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean) / float64(len(values)-1)
	}
	return mean + score*max(math.Sqrt(squares), leastDeviation*math.Abs(mean))
}

// after is what is remembered when the metrics of one more step are known. What was left out does not count in the usual. g is not changed:
// a checkpoint that is being written may have it.
func (c guard) after(g *checkpoint.Guard, m state.Metrics) *checkpoint.Guard {
	if !c.on() {
		return g
	}
	next := checkpoint.Guard{}
	if g != nil {
		next = *g
	}
	switch {
	case !m.Finite:
		return &next
	case m.Spikes != 0:
		next.InARow++
		next.Spikes++
		return &next
	}
	next.InARow = 0
	next.Steps = remember(next.Steps, m.Step, c.Window)
	for _, f := range []struct {
		score  float64
		values *[]float64
		value  float64
	}{{c.Loss, &next.Loss, m.Loss}, {c.GradNorm, &next.GradNorm, m.GradNorm}, {c.UpdateNorm, &next.UpdateNorm, m.UpdateNorm}} {
		if f.score > 0 {
			*f.values = remember(*f.values, f.value, c.Window)
		}
	}
	return &next
}

// remember is values with one more; beside the window it keeps those that may be too new for it.
func remember[T any](values []T, v T, window int) []T {
	first := max(0, len(values)+1-(window+guardLag-1))
	return append(slices.Clone(values[first:]), v)
}

// leftOut says why the update of a step was not made; "" if it was.
func leftOut(m state.Metrics) string {
	if !m.Finite {
		return "not finite"
	}
	return m.Spikes.String()
}

// checkDivergence says which updates are left out, and ends a run that makes none any more.
func (t *trainer) checkDivergence(ctx context.Context, m state.Metrics, limits state.Limits, scale float64) error {
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
	if overflows(m, scale) {
		t.say("step %d: a gradient overflows f16 at a scale of the loss of %g: the update is left out, and the scale is halved", m.Step, scale)
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
