package main

import (
	"context"
	"os"

	"gputrain/gpu"
	"gputrain/state"
	"gputrain/train/setup"
)

// modelFlags name a trained model and where to run it.
type modelFlags struct {
	Model   string `arg:"" help:"Run directory (its newest checkpoint), checkpoint, or model directory in the Hugging Face layout." type:"existingdir"`
	Adapter string `help:"Index, part of a name, or backend:part." placeholder:"SEL"`
}

// open finds the model's directory and puts the model on its adapter.
func (f *modelFlags) open(ctx context.Context) (*state.Model, func(), error) {
	dir, unhold, err := setup.HoldModel(f.Model, os.Stderr)
	if err != nil {
		return nil, nil, err
	}
	defer unhold() // what is read is in memory by then
	adapter, err := selectAdapter(f.Adapter)
	if err != nil {
		return nil, nil, err
	}
	dev, err := gpu.Open(ctx, adapter, gpu.Options{})
	if err != nil {
		return nil, nil, err
	}
	dev.SetAutotune(false)
	m, err := state.LoadModel(dev, dir)
	if err != nil {
		dev.Release()
		return nil, nil, err
	}
	return m, func() { m.Release(); dev.Release() }, nil
}
