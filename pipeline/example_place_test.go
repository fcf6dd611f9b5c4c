package pipeline_test

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
)

// A value goes to two devices, is updated there with gradients that each has of its own leaves, and comes back.
func ExamplePlace() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var devices []*gpu.Device
	for _, query := range []string{"0", "1"} {
		adapter, err := gpu.Select(query)
		check(err)
		dev, err := gpu.Open(ctx, adapter, gpu.Options{})
		check(err)
		devices = append(devices, dev)
	}
	params, err := buffers.Upload(devices[0], "params", []buffers.Host{
		{Path: "encoder.weight", Shape: []int{64, 32}, Data: make([]float32, 64*32)},
		{Path: "decoder.weight", Shape: []int{32, 64}, Data: make([]float32, 32*64)},
	}, buffers.F32)
	check(err)
	v, err := state.New(state.Fields{Params: params, Optimizer: optim.Config{Name: "muon"}, InitOptimizer: true})
	check(err)
	placed, err := pipeline.Place(ctx, v, devices, []partition.Rule{{Match: `^encoder\.`, Stage: 0}, {Match: `^decoder\.`, Stage: 1}})
	check(err)
	stages, err := placed.Stages()
	check(err)
	var grads []*buffers.Tree
	for _, s := range stages {
		tree, err := buffers.NewTree(s.Params.Device(), "grads", s.Params.Layout(), buffers.F32)
		check(err)
		grads = append(grads, tree)
	}
	for range 100 {
		// ... write the gradients of this step, and then:
		placed, err = placed.ApplyGradients(ctx, grads)
		check(err)
	}
	check(placed.Save(ctx, "runs/mine/step-100", state.SaveOptions{})) // the files of the undivided value
	v, err = placed.Gather(ctx, devices[0])
	check(err)
	defer v.Release()
	fmt.Println(v)
}
