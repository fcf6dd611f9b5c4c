package partition

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/optim"
)

// Two parts of 100 operations on stages of 100 and 50 a second: a microbatch takes 1 s forward and 2 s backward on the first, 2 s and 4 s on
// the second, and 60 bytes cross at the slower end's 30 bytes a second, 2 s each way.
func TestExpectedStep(t *testing.T) {
	units := []Unit{{Params: []string{"h.0.w"}, FLOPs: 100, Activation: 60}, {Params: []string{"h.1.w"}, FLOPs: 100}}
	powers := []Power{{Speed: gpu.Speed{FLOPS: 100, BytesPerSecond: 30}}, {Speed: gpu.Speed{FLOPS: 50, BytesPerSecond: 300}}}
	a, err := Auto(units, 2, 1, powers)
	require.NoError(t, err)
	for stage, want := range [][2]float64{{3, 4}, {6, 0.4}} {
		compute, move := newBalance(units, 2, 1, powers).costOf(stage, stage+1, powers[stage])
		assert.Equal(t, want, [2]float64{compute, move})
	}

	one, err := schedule.New(schedule.Config{Name: schedule.OneForwardOneBackward, Stages: 2, Microbatches: 1})
	require.NoError(t, err)
	played := a.Expect(one, units, powers, 0)
	assert.InDelta(t, 1+2+2+4+2+2, played.Makespan, 1e-9)
	assert.InDelta(t, 1-3.0/13, played.Idle[0], 1e-9)
	assert.InDelta(t, 1-6.0/13, played.Idle[1], 1e-9)
	assert.InDelta(t, 1+2+2+6+2+3, a.Expect(one, units, powers, 1).Makespan, 1e-9, "a backward pass that computes the forward again")
}

// AdamW has two moments of a parameter's size, and a little besides. Two sums of gradients wait.
func TestMemoryOfUnitsWithAnOptimizer(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 64, Vocab: 512, Context: 16})
	b := built(t, def, err)
	units := unitsOf(t, b)
	tx, err := optim.Build("adamw", optim.Options{Schedule: optim.ScheduleConfig{Type: "constant", LearningRate: 1e-3}}, nil)
	require.NoError(t, err)
	require.NoError(t, AddOptimizer(units, tx, 2, buffers.F32, b.Graph.Parameters(), gpu.DefaultLimits()))
	for _, u := range units {
		assert.GreaterOrEqual(t, u.Memory, 6*u.Bytes, u.Name)
		if u.Name != "head" { // two vectors
			assert.Less(t, u.Memory, 13*u.Bytes/2, u.Name)
		}
	}
	err = AddOptimizer(units, tx, 0, buffers.F32, []buffers.Spec{{Path: "wte.weight", Shape: []int{32, 8}}}, gpu.DefaultLimits())
	assert.ErrorContains(t, err, `parameter "wpe.weight" of "embedding" is not one of the model's 1`)
}

// What is made for the optimizer's memory grows with the layers, not with their square.
func TestOptimizerOfDeepModels(t *testing.T) {
	made := func(layers int) float64 {
		var units []Unit
		var whole []buffers.Spec
		for i := range layers {
			path := fmt.Sprintf("layers.%d.weight", i)
			units, whole = append(units, Unit{Name: path, Params: []string{path}}), append(whole, buffers.Spec{Path: path, Shape: []int{8, 8}})
		}
		tx, err := optim.Build("adamw", optim.Options{Schedule: optim.ScheduleConfig{Type: "constant", LearningRate: 1e-3}}, nil)
		require.NoError(t, err)
		tx = optim.Freeze(whole[:layers/2], tx)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, AddOptimizer(units, tx, 1, buffers.F32, whole, gpu.DefaultLimits()))
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	made(1) // what is made once
	assert.Less(t, made(800)/made(200), 6.0, "four times the layers")
}
