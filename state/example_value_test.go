package state_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Params and gradients of one's own, without a model of this module and without its loop: the distance of a point from a target.
func ExampleNew() {
	ctx := context.Background()
	dev := must(gpu.Open(ctx, must(gpu.Select("")), gpu.Options{}))
	defer dev.Release()
	point := []buffers.Host{{Path: "point", Shape: []int{2}, Data: []float32{3, -4}}}
	v := must(state.New(state.Fields{
		Params:        must(buffers.Upload(dev, "params", point, buffers.F32)),
		Optimizer:     optim.Config{Name: "adamw", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 0.1}}},
		InitOptimizer: true,
	}))
	defer func() { v.Release() }()
	grads := must(buffers.Upload(dev, "grads", point, buffers.F32))
	defer grads.Release()
	target := []float32{1, 2}
	for range 200 {
		now := must(must(v.Fields()).Params.Read(ctx, "point"))
		if err := grads.Write("point", []float32{now[0] - target[0], now[1] - target[1]}); err != nil {
			panic(err)
		}
		v = must(v.ApplyGradients(ctx, grads))
	}
	f := must(v.Fields())
	fmt.Printf("step %d: %.1f\n", f.Step, must(f.Params.Read(ctx, "point")))
	// It prints step 200: [1.0 2.0]
}

// A value becomes a training state, and a value again.
func ExampleTrain() {
	ctx := context.Background()
	dev := must(gpu.Open(ctx, must(gpu.Select("")), gpu.Options{}))
	defer dev.Release()
	def := must(model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 1, Width: 8, Vocab: 8, Context: 4}))
	v := must(state.New(state.Fields{
		Definition: def,
		Params:     must(buffers.Upload(dev, "params", model.Init(def, 42), buffers.F32)),
		Optimizer:  optim.Config{Name: "lion", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1e-3}}},
	}))
	st := must(state.Train(ctx, v, state.Config{Batch: 2}))
	// ... st.TrainStep as in the example of Create, and then:
	v = must(st.Value(ctx))
	defer func() { v.Release() }()
	v = must(v.With(func(f *state.Fields) { f.Step = 100 }))
	f := must(v.Fields())
	fmt.Println(f.Definition.Kind(), f.Step, f.OptimizerState.Counts()["updates"])
	// It prints gpt2 100 100
}

// The examples need an adapter, which go test does not know of them.
func TestExamplesOfValues(t *testing.T) {
	gputest.Adapters(t)
	for want, example := range map[string]func(){"step 200: [1.0 2.0]\n": ExampleNew, "gpt2 100 100\n": ExampleTrain} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		screen := os.Stdout
		os.Stdout = w
		example()
		os.Stdout = screen
		require.NoError(t, w.Close())
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
}
