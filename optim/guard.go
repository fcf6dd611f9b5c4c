package optim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/gpu"
)

// Guard says what GuardUpdates looks at besides the gradient.
type Guard struct {
	Losses int  // numbers in State.Losses, whose sum is the loss of an update; at least 1
	Update bool // measure the norm of the update too: another pass over the operands of the update
}

// GuardUpdates makes SkipNonFinite look at more than the gradient: an update whose loss is not finite changes nothing
// either, nor one whose loss, gradient's norm or own norm is beyond the Limits of its call. All is decided on the
// device, before anything changes, except for an update's own norm: what operators have learned from a gradient by
// then, they keep. It goes around SkipNonFinite, and into Accumulate.
func GuardUpdates(g Guard, inner Transform) Transform {
	switch {
	case inner.err != nil:
		return inner
	case !inner.skip || inner.accumulate > 1 || inner.guard.Losses > 0:
		return failed("guard_updates", "inner: found %s, wanted skip_non_finite(...)", inner.name)
	case g.Losses < 1:
		return failed("guard_updates", "losses: found %d, wanted 1 or more", g.Losses)
	}
	if g.Update {
		at := len(inner.elements)
		for at > 0 && inner.elements[at-1].behind {
			at--
		}
		inner.elements = slices.Insert(slices.Clone(inner.elements), at, globalNorm().elements...)
	}
	inner.name, inner.guard = "guard_updates("+inner.name+")", g
	return inner
}

// Limits bound what an update may measure; 0 and infinity bound nothing.
type Limits struct {
	Loss                 float64 // the sum of State.Losses
	GradNorm, UpdateNorm float64 // global L2 norms, before any clip and of the change of the params
}

// Spike is a set of limits that were exceeded.
type Spike uint32

// The bits of a Spike, as they stand on the device next to bit 0, which means not finite.
const (
	SpikeLoss Spike = 1 << (iota + 1)
	SpikeGradNorm
	SpikeUpdateNorm
)

// String names them: "loss, gradient norm".
func (s Spike) String() string {
	var names []string
	for i, name := range []string{"loss", "gradient norm", "update norm"} {
		if s&(SpikeLoss<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// guardLimits is the room of the limits, before the losses.
const guardLimits = 16

// words are the limits as the device has them.
func (l Limits) words() []byte {
	var out [4]float32
	for i, v := range []float64{l.Loss, l.GradNorm, l.UpdateNorm} {
		if !math.IsInf(v, 0) {
			out[i] = float32(v)
		}
	}
	return gpu.Bytes(out)
}

// SetLimits sets the limits of the updates that are submitted from now on.
func (s *State) SetLimits(l Limits) error {
	if s.plan.transform.guard.Losses == 0 {
		return fmt.Errorf("optim: %s: limits: found a transformation without guard_updates", s.plan.transform.name)
	}
	if err := s.device.Write(s.measurements.guard.Range(0, guardLimits), l.words()); err != nil {
		return fmt.Errorf("optim: %s: limits: %w", s.plan.transform.name, err)
	}
	return nil
}

// Losses is where a guarded update finds its losses, an f32 each: they are put there before it is submitted, or before its second piece.
func (s *State) Losses() gpu.Range {
	return s.measurements.guard.Range(guardLimits, 4*uint64(s.plan.transform.guard.Losses))
}

// UpdateStatistics is where an update leaves the Statistics of itself; it has no bytes where Guard.Update is not set.
func (s *State) UpdateStatistics() gpu.Range {
	norm, ok := s.plan.updateNorm()
	if !ok {
		return gpu.Range{}
	}
	return s.measurements.statistics.Range(StatisticsBytes*uint64(norm), StatisticsBytes)
}

// updateNorm is which norm is the update's own.
func (p *plan) updateNorm() (norm int, ok bool) {
	if !p.transform.guard.Update {
		return 0, false
	}
	last := len(p.steps) - 1
	for p.steps[last].behind {
		last--
	}
	return p.steps[last].norm, true
}

// guarded records the kernel that looks at a norm that has just come, if it is one that limits are for.
func (m *measurements) guarded(rec *gpu.Recording, p *plan, norm int) {
	losses, update := uint32(0), uint32(0)
	if norm == 0 {
		losses = uint32(p.transform.guard.Losses)
	}
	if own, ok := p.updateNorm(); ok && norm == own {
		update = 1
	}
	if losses+update == 0 {
		return
	}
	params := struct{ Norm, Losses, Update uint32 }{uint32(norm), losses, update}
	rec.Dispatch(operatorKernel("guard", "guard", nil, nil), gpu.Grid{X: 1, Y: 1, Z: 1}, params, m.guard.All(), m.statistics.All())
}
