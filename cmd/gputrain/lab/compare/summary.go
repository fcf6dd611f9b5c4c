package compare

import (
	"math"
	"slices"

	"gputrain/train"
)

// Summary is what an entrant's runs say together. What is not known is NaN, in JSON "NaN".
type Summary struct {
	Done     int `json:"done"` // runs that made all their steps; the other figures are of these alone
	Diverged int `json:"diverged"`
	// FinalLoss is the mean of the last evaluations, Spread their standard deviation (of a sample; NaN for one run).
	FinalLoss train.Number `json:"final_loss"`
	Spread    train.Number `json:"spread"`
	// ReachedStep is the first evaluated step at which the mean curve is at the baseline's final loss or below, and
	// ReachedSeconds the mean time of training up to it; StepFraction and SecondsFraction are of all the steps of the
	// baseline and of its seconds for them. 0 and NaN where it has not got there.
	ReachedStep     int64        `json:"reached_step"`
	StepFraction    train.Number `json:"step_fraction"`
	ReachedSeconds  train.Number `json:"reached_seconds"`
	SecondsFraction train.Number `json:"seconds_fraction"`
	StepSeconds     train.Number `json:"step_seconds"` // median over all steps of all runs: of the runs' medians
}

// sample is a point of a mean curve.
type sample struct {
	step          int64
	seconds, loss float64
}

// finished are the runs that made all their steps.
func (e *Entrant) finished() []Run {
	return slices.DeleteFunc(slices.Clone(e.Runs), func(r Run) bool { return r.Ended != done || len(r.Steps) == 0 })
}

// mean is the mean curve of runs, as far as all of them go.
func mean(runs []Run) []sample {
	var curve []sample
	for i := 0; len(runs) > 0; i++ {
		var s sample
		for _, r := range runs {
			if i >= len(r.Steps) {
				return curve
			}
			s.step = r.Steps[i]
			s.seconds += float64(r.Seconds[i]) / float64(len(runs))
			s.loss += float64(r.EvalLoss[i]) / float64(len(runs))
		}
		curve = append(curve, s)
	}
	return curve
}

// baseline is the entrant that the others are held to.
func (c *Comparison) baseline() *Entrant {
	for _, e := range c.Entrants {
		if e.Label == c.Baseline {
			return e
		}
	}
	return nil
}

// target is the end of the baseline's mean curve; NaN before it has one.
func (c *Comparison) target() sample {
	if b := c.baseline(); b != nil {
		if curve := mean(b.finished()); len(curve) > 0 {
			return curve[len(curve)-1]
		}
	}
	return sample{loss: math.NaN()}
}

func (c *Comparison) summarize() {
	target := c.target()
	for _, e := range c.Entrants {
		e.Summary = e.summary(target)
	}
}

func (e *Entrant) summary(target sample) Summary {
	nan := train.Number(math.NaN())
	runs := e.finished()
	s := Summary{
		Done: len(runs), FinalLoss: nan, Spread: nan, StepFraction: nan, ReachedSeconds: nan, SecondsFraction: nan, StepSeconds: nan,
	}
	var medians []float64
	for _, r := range e.Runs {
		if r.Ended != done {
			s.Diverged++
		}
	}
	for _, r := range runs {
		medians = append(medians, float64(r.StepSeconds))
	}
	curve := mean(runs)
	if len(curve) == 0 {
		return s
	}
	s.StepSeconds = train.Number(median(medians))
	final := curve[len(curve)-1].loss
	s.FinalLoss = train.Number(final)
	if len(runs) > 1 {
		squares := 0.0
		for _, r := range runs {
			d := float64(r.EvalLoss[len(r.EvalLoss)-1]) - final
			squares += d * d
		}
		s.Spread = train.Number(math.Sqrt(squares / float64(len(runs)-1)))
	}
	for _, p := range curve {
		if p.loss <= target.loss {
			s.ReachedStep, s.ReachedSeconds = p.step, train.Number(p.seconds)
			s.StepFraction = train.Number(float64(p.step) / float64(target.step))
			s.SecondsFraction = train.Number(p.seconds / target.seconds)
			break
		}
	}
	return s
}
