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

// The value of a checkpoint goes to two devices, neither of which has room for all of it.
func ExamplePlacementByRules_load() {
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
	const dir = "runs/mine/step-100"
	leaves, _, err := state.LoadValue(ctx, devices[0].AsDry(), dir, state.LoadOptions{WeightsOnly: true}) // takes no memory
	check(err)
	p, err := pipeline.PlacementByRules(leaves, devices, []partition.Rule{{Match: `^encoder\.`, Stage: 0}, {Match: `^decoder\.`, Stage: 1}})
	check(err)
	v, record, err := state.LoadValue(ctx, nil, dir, state.LoadOptions{Placement: p})
	check(err)
	defer func() { v.Release() }()
	v, older, err := v.LoadOptimizer(ctx, "runs/mine/step-50") // what the optimizer remembered then
	check(err)
	fmt.Println(v, record.Step, older.Step)
}

// A value goes to two devices, is updated there with gradients that each has of its own leaves, and comes back.
func ExamplePlacementByRules() {
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
	p, err := pipeline.PlacementByRules(v, devices, []partition.Rule{{Match: `^encoder\.`, Stage: 0}, {Match: `^decoder\.`, Stage: 1}})
	check(err)
	v, err = v.Place(ctx, p)
	check(err)
	f, err := v.Fields()
	check(err)
	var grads []*buffers.Tree
	for _, s := range f.Stages {
		tree, err := buffers.NewTree(s.Params.Device(), "grads", s.Params.Layout(), buffers.F32)
		check(err)
		grads = append(grads, tree)
	}
	for range 100 {
		// ... write the gradients of this step, and then:
		v, err = v.ApplyGradients(ctx, grads...)
		check(err)
	}
	check(v.Save(ctx, "runs/mine/step-100", state.SaveOptions{})) // the files of the undivided value
	v, err = v.Place(ctx, state.Placement{Devices: devices[:1]})
	check(err)
	defer v.Release()
	fmt.Println(v)
}
