package optim

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
)

// A call at another schedule is the call of an optimizer that has that schedule, in its scheduled decay too; later calls are as if
// nothing had been.
func TestPrepareAtIsAnotherSchedule(t *testing.T) {
	linear := ScheduleConfig{Type: "linear", LearningRate: 0.1, LearningRateEnd: new(0.0), Steps: 7}
	other := ScheduleConfig{Type: "cosine", LearningRate: 0.3, Steps: 9}
	lr, err := other.Build(Stable)
	require.NoError(t, err)
	eachOptimizer(t, func(t *testing.T, d *gpu.Device, name string) {
		options := Options{Schedule: linear, WeightDecay: 0.1, Rates: []PathRate{{Pattern: "^w", Multiplier: 0.5}}, AccumulationSteps: 2}
		r := rand.New(rand.NewPCG(61, 62))
		specs := everySpecs[:5]
		specs = append(specs, buffers.Spec{Path: "w", Shape: []int{40, 33}})
		params := randomTree(r, specs, 1)
		own := newRig(t, d, built(t, name, options, smallOf(t, name)), params, buffers.F32)
		options.Schedule = other
		wanted := newRig(t, d, built(t, name, options, smallOf(t, name)), params, buffers.F32)
		call := func(rig *rig, at Schedule, grads []buffers.Host) {
			require.NoError(t, rig.grads.WriteAll(grads))
			phase, err := rig.state.PrepareAt(at)
			require.NoError(t, err)
			require.NoError(t, rig.programs[phase].Submit(t.Context()))
		}
		for range 6 {
			grads := randomTree(r, specs, 0.1)
			call(own, lr, grads)
			call(wanted, nil, grads)
		}
		sameBits(t, wanted.download(wanted.params), own.download(own.params))
		assert.Equal(t, wanted.state.LearningRate(), own.state.LearningRate())
		for range 2 {
			own.call(randomTree(r, specs, 0.1))
		}
		assert.InDelta(t, 0.1*(1-3.0/7), own.state.LearningRate(), 1e-15, "the fourth update, at its own rate again")
	})
}
