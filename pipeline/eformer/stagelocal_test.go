package eformer_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/optim"
)

// Stages on devices of their own come to every bit of the whole tree on one: params, state, statistics, also when a step is skipped because
// of one number on one stage. So does every optimizer: see package optim for stages, and TestPlacedIsTheWholeValue.
func TestStageLocalIsTheWholeTree(t *testing.T) {
	devices := several(t, 3)
	clip := 0.5
	for variant, o := range []optim.Options{
		{
			Schedule: optim.ScheduleConfig{Type: "linear", LearningRate: 0.05, LearningRateEnd: new(0.0), Steps: 20}, ClipGrad: &clip, WeightDecay: 0.1,
			WeightDecayMask: optim.MaskPatterns("weight", "scale"), SkipNonFinite: true,
		},
		{Schedule: optim.ScheduleConfig{LearningRate: 0.05}, AccumulationSteps: 2, WeightDecay: 0.1, Rates: []optim.PathRate{{Pattern: "^a", Multiplier: 0.5}}},
	} {
		tx := stageLocal(t, "quad", o, quad)
		for _, of := range [][]int{{0, 0, 0, 0, 0, 0, 0, 0}, {2, 0, 1, 2, 0, 0, 1, 2}, {1, 1, 1, 0, 1, 1, 1, 1}, {0, 0, 0, 0, 1, 0, 0, 0}} {
			t.Run(fmt.Sprintf("%d/%v", variant, of), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(variant), 99))
				start := draw(r, 1)
				whole, stages := newWhole(t, devices[0], tx, start), newStaged(t, devices, tx, start, of)
				both := func(grads []buffers.Host) {
					whole.call(grads)
					stages.call(grads)
				}
				for range 4 {
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
}
