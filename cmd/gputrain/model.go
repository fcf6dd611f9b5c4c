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

	tokens   setup.Tokens // of the model's directory
	unspoken error        // why that has none
}

// openedModel is a model on its adapter, and the directory that it is from.
type openedModel struct {
	*state.Model
	dir string
}

// open finds the model's directory, which stays there until release, and puts the model on its adapter.
func (f *modelFlags) open(ctx context.Context) (m *openedModel, release func(), err error) {
	dir, unhold, err := setup.HoldModel(f.Model, os.Stderr)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			unhold()
		}
	}()
	adapter, err := selectAdapter(f.Adapter)
	if err != nil {
		return nil, nil, err
	}
	dev, err := gpu.Open(ctx, adapter, gpu.Options{})
	if err != nil {
		return nil, nil, err
	}
	dev.SetAutotune(false)
	loaded, err := state.LoadModel(dev, dir)
	if err != nil {
		dev.Release()
		return nil, nil, err
	}
	f.tokens, f.unspoken = setup.ModelTokens(dir, loaded.Definition())
	return &openedModel{loaded, dir}, func() { loaded.Release(); dev.Release(); unhold() }, nil
}
