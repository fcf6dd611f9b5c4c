package optim

import "math"

// Guard sets the limits and the losses of the next updates.
func (w *Twin) Guard(limits Limits, losses ...float64) { w.limits, w.losses = limits, losses }

// guarded tells whether a norm that has just been measured leaves the update out.
func (w *Twin) guarded(norm int) {
	t := w.plan.transform
	set := func(bit uint32, is bool) {
		if t.skip && is {
			w.left |= bit
		}
	}
	beyond := func(x, limit float64) bool { return limit > 0 && x > limit }
	if norm == 0 {
		set(1, w.bad[0])
		if t.guard.Losses > 0 {
			loss := 0.0
			for _, l := range w.losses {
				loss += l
			}
			set(1, math.IsNaN(loss) || math.IsInf(loss, 0))
			set(uint32(SpikeLoss), beyond(loss, w.limits.Loss) && !math.IsInf(loss, 0))
			set(uint32(SpikeGradNorm), beyond(w.norms[0], w.limits.GradNorm))
		}
	}
	if own, ok := w.plan.updateNorm(); ok && norm == own {
		set(1, w.bad[own])
		set(uint32(SpikeUpdateNorm), beyond(w.norms[own], w.limits.UpdateNorm))
	}
}
