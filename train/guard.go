package train

import (
	"fmt"
	"math"
	"slices"

	"gputrain/checkpoint"
	"gputrain/state"
)

// SpikeConfig says which updates are left out because they are beyond the usual. Loss, GradNorm and UpdateNorm are scores: how many standard
// deviations above its mean over the last Window updates made a number may be; 0 is no limit. There is none either before Window updates are
// made. A standard deviation counts as at least a hundredth of the mean, so that nothing is beyond limits by being steady.
type SpikeConfig struct {
	Loss, GradNorm, UpdateNorm float64
	Window                     int // default 128
	// Patience is the number of updates in a row that may be left out; with the last of them the run has diverged. Default 10.
	Patience int64
}

func (c SpikeConfig) withDefaults() SpikeConfig {
	if c.Window == 0 {
		c.Window = 128
	}
	if c.Patience == 0 {
		c.Patience = 10
	}
	return c
}

// Validate reports the first value that cannot be meant.
func (c SpikeConfig) Validate() error {
	c = c.withDefaults()
	for _, f := range []struct {
		name  string
		score float64
	}{{"loss", c.Loss}, {"grad_norm", c.GradNorm}, {"update_norm", c.UpdateNorm}} {
		if !(f.score >= 0) || math.IsInf(f.score, 1) {
			return fmt.Errorf("train: config: spike_%s: %v, want 0 or more standard deviations", f.name, f.score)
		}
	}
	switch {
	case c.Window < 2:
		return fmt.Errorf("train: config: spike_window: %d, want at least 2", c.Window)
	case c.Patience < 1:
		return fmt.Errorf("train: config: spike_patience: %d, want at least 1", c.Patience)
	}
	return nil
}

func (c SpikeConfig) on() bool { return c.Loss > 0 || c.GradNorm > 0 || c.UpdateNorm > 0 }

// guardLag is the number of steps up to the one in hand whose metrics do not count in its limits: they may be in flight, or not, and what the
// limits are made of must not depend on that.
const guardLag = 3

// leastDeviation is the share of the mean that a standard deviation is at least.
const leastDeviation = 0.01

// limits are those of a step, made of what g remembers.
func (c SpikeConfig) limits(g *checkpoint.Guard, step int64) state.Limits {
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
func (c SpikeConfig) after(g *checkpoint.Guard, m state.Metrics) *checkpoint.Guard {
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
