package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

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
	dir, err := modelDir(f.Model)
	if err != nil {
		return nil, nil, err
	}
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

// modelDir is path itself where it holds a config.json, the newest whole
// checkpoint where path is a run directory.
func modelDir(path string) (string, error) {
	if _, err := os.Stat(filepath.Join(path, "config.json")); err == nil {
		return path, nil
	}
	found, err := checkpoints(path).Newest()
	if err != nil {
		return "", err
	}
	if found.Path == "" {
		return "", usageError{fmt.Errorf("%s: found neither config.json nor checkpoints, wanted a run directory, a checkpoint or a model directory", path)}
	}
	for _, r := range found.Rejected {
		fmt.Fprintf(os.Stderr, "gputrain: %s\n", r)
	}
	return found.Path, nil
}

func checkpoints(runDir string) state.Checkpoints {
	return state.Checkpoints{FS: state.OS, Dir: filepath.Join(runDir, "checkpoints")}
}
