package eformer_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
)

// Stages on devices of their own come to every bit of the whole tree on one: params, state, statistics; when a step is skipped because
// of one number on one stage; and when they go on from what was saved.
func TestStageLocalIsTheWholeTree(t *testing.T) {
	devices := several(t, 3)
	clip := 0.5
	options := []optim.Options{
		{
			Schedule: optim.ScheduleConfig{Type: "linear", LearningRate: 0.05, LearningRateEnd: new(0.0), Steps: 20}, ClipGrad: &clip, WeightDecay: 0.1,
			WeightDecayMask: optim.MaskPatterns("weight", "scale"), SkipNonFinite: true,
		},
		{Schedule: optim.ScheduleConfig{LearningRate: 0.05}, AccumulationSteps: 2, WeightDecay: 0.1, Rates: []optim.PathRate{{Pattern: "^a", Multiplier: 0.5}}},
	}
	seen := 0
	eachStageLocalOptimizer(t, func(t *testing.T, name string, parameters [2]string) {
		seen++
		for variant, o := range options {
			tx := stageLocal(t, name, o, parameters[variant])
			for d, division := range slices.Sorted(maps.Keys(divisions)) {
				if testing.Short() && (d+variant+seen)%3 > 0 {
					continue // one or two divisions of each optimizer and variant
				}
				of := divisions[division]
				t.Run(fmt.Sprintf("%s/%d", division, variant), func(t *testing.T) {
					r := rand.New(rand.NewPCG(uint64(variant), 99))
					start := draw(r, 1)
					whole, stages := newWhole(t, devices[0], tx, start), newStaged(t, devices, tx, start, of)
					both := func(grads []buffers.Host) {
						whole.call(grads)
						stages.call(grads)
					}
					for range 3 {
						both(draw(r, 1))
					}
					sameState(t, whole.bits(), stages.bits())
					stages = restored(stages, devices)
					for range 2 {
						both(draw(r, 1))
					}
					sameState(t, whole.bits(), stages.bits())
					if variant > 0 {
						return
					}
					require.Equal(t, whole.statistics(), stages.statistics())
					before := stages.bits()
					bad := draw(r, 1)
					bad[6].Data[7] = float32(math.NaN())
					both(bad)
					sameState(t, before, stages.bits())
					require.Equal(t, uint32(1), stages.statistics().Skipped)
					both(draw(r, 1))
					sameState(t, whole.bits(), stages.bits())
					require.Equal(t, uint32(1), whole.statistics().Skipped)
				})
			}
		}
	})
}

// restored is stages made anew of what another's save.
func restored(s *staged, devices []*gpu.Device) *staged {
	division := make([]int, len(stageLocalModel))
	for i, spec := range stageLocalModel {
		division[i] = s.of[spec.Path]
	}
	out := newStaged(s.t, devices, s.tx, s.params(), division)
	for i, r := range s.stages {
		to := out.stages[i].State.Tensors()
		for k, tensor := range r.State.Tensors() {
			raw, err := tensor.Read(s.t.Context())
			require.NoError(s.t, err)
			require.NoError(s.t, to[k].Write(raw))
		}
		require.NoError(s.t, out.stages[i].State.SetCounts(r.State.Counts()))
	}
	return out
}

// Stages follow the float64 definition of the whole model.
func TestStageLocalFollowsTheTwin(t *testing.T) {
	devices := several(t, 2)
	clip := 0.5
	eachStageLocalOptimizer(t, func(t *testing.T, name string, parameters [2]string) {
		tx := stageLocal(t, name, optim.Options{
			Schedule: optim.ScheduleConfig{LearningRate: 0.02}, ClipGrad: &clip, WeightDecay: 0.1, WeightDecayMask: optim.MaskMatrices(), AccumulationSteps: 2,
		}, parameters[0])
		r := rand.New(rand.NewPCG(5, 6))
		start := draw(r, 1)
		stages := newStaged(t, devices, tx, start, divisions["two, uneven"])
		twin, err := optim.NewTwin(tx.Transform, start)
		require.NoError(t, err)
		for range 4 {
			grads := draw(r, 1)
			stages.call(grads)
			require.NoError(t, twin.Update(grads))
		}
		assert.InEpsilon(t, twin.Statistics().Norm, stages.statistics().Norm, 2e-6)
		want := twin.Params()
		for i, h := range stages.params() {
			require.Equal(t, want[i].Path, h.Path)
			for k, v := range h.Data {
				// Relative to updates of 0.02 and params of about 1: the tolerance of the optimizers' own checks, which is largest for matrices.
				require.InDelta(t, want[i].Data[k], v, 2e-4, "%s[%d]", h.Path, k)
			}
		}
	})
}
