package train

import (
	"math"
	"slices"

	"gputrain/state"
	"gputrain/state/checkpoint"
)

// With products of f16 the loss whose gradient is computed is scaled by a power of two: f16 has nothing below 2^-24, and a tenth of the gradients that
// products read would become 0. The scale begins at state.FirstScale. It is halved when a gradient is not finite, and doubled when doubledAfter steps in a row
// have been. As for the limits of spikes, the newest guardLag steps do not count yet: the scale of a step does not depend on what is in flight.
const (
	largestScale = 24
	doubledAfter = 1000
)

// scaleOf is what is remembered once all steps that count for the scale of a step do; nil: nothing yet.
func scaleOf(s *checkpoint.Scale, step int64) checkpoint.Scale {
	if s == nil {
		return checkpoint.Scale{Exponent: state.FirstScale}
	}
	now := *s
	for len(now.Newest) > 0 && now.Newest[0].Step <= step-guardLag {
		switch was := now.Newest[0]; {
		case was.Finite:
			if now.Good++; now.Good == doubledAfter {
				now.Exponent, now.Good = min(now.Exponent+1, largestScale), 0
			}
		case was.Exponent == now.Exponent: // else it is halved already for steps like this one
			now.Exponent, now.Good = max(now.Exponent-1, 0), 0
		}
		now.Newest = now.Newest[1:]
	}
	return now
}

// scaleAt is the scale of a step.
func scaleAt(s *checkpoint.Scale, step int64) float64 {
	return math.Ldexp(1, scaleOf(s, step).Exponent)
}

// scaled is what is remembered when the metrics of one more step are known. s is not changed: a checkpoint that is being written may have it.
func scaled(s *checkpoint.Scale, m state.Metrics) *checkpoint.Scale {
	now := scaleOf(s, m.Step)
	now.Newest = append(slices.Clone(now.Newest), checkpoint.ScaledStep{Step: m.Step, Exponent: now.Exponent, Finite: m.Finite})
	return &now
}

// overflows tells whether it is the scale, not the training, that made a gradient infinite: the loss is finite, and the scale can be halved.
func overflows(m state.Metrics, scale float64) bool {
	return !m.Finite && scale > 1 && !math.IsNaN(m.Loss) && !math.IsInf(m.Loss, 0)
}
