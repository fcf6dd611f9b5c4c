package train

import (
	"math"
	"slices"

	"gputrain/checkpoint"
	"gputrain/state"
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
