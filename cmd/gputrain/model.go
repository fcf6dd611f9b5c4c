package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/state"
)

// modelFlags name a trained model and where to run it.
type modelFlags struct {
	Model   string `arg:"" help:"Run directory (its newest checkpoint), checkpoint, or model directory in the Hugging Face layout." type:"existingdir"`
	Adapter string `help:"Index, part of a name, or backend:part." placeholder:"SEL"`
}

// open finds the model's directory and puts the model on its adapter.
func (f *modelFlags) open(ctx context.Context) (*state.Model, func(), error) {
	dir, unhold, err := holdModel(f.Model)
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

// holdModel is path itself where it holds a config.json, the newest whole
// checkpoint where path is a run directory. A training run that goes on leaves
// the checkpoint until release.
func holdModel(path string) (dir string, release func(), err error) {
	let := func(unlock func() error) func() {
		return func() { _ = unlock() } // nothing was written
	}
	if _, err := os.Stat(filepath.Join(path, "config.json")); err == nil {
		unlock, err := checkpoint.Hold(checkpoint.OS, path)
		return path, let(unlock), err
	}
	found, unlock, err := checkpoints(path).Hold()
	if err != nil {
		return "", nil, err
	}
	if found.Path == "" {
		return "", nil, usageError{fmt.Errorf("%s: found neither config.json nor checkpoints, wanted a run directory, a checkpoint or a model directory", path)}
	}
	for _, r := range found.Rejected {
		fmt.Fprintf(os.Stderr, "gputrain: %s\n", r)
	}
	return found.Path, let(unlock), nil
}

func checkpoints(runDir string) checkpoint.Store {
	return checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(runDir, "checkpoints")}
}
