package main

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"gputrain/buffers/prng"
	"gputrain/cmd/gputrain/runfile"
	"gputrain/data"
	"gputrain/gpu"
	"gputrain/state"
)

// trainFigure is the default run's training step, the median of many.
type trainFigure struct {
	TokensPerSecond float64
	Millis          float64
	Dispatches      int
	Bytes           uint64
}

// measureTraining runs steps of the default model on random tokens.
func measureTraining(ctx context.Context, dev *gpu.Device) (trainFigure, error) {
	var f trainFigure
	cfg := runfile.New()
	def, _, err := definition(cfg)
	if err != nil {
		return f, err
	}
	optimizer, err := optimizerConfig(cfg)
	if err != nil {
		return f, err
	}
	const batch = 8 // as torch_gpt.py has it
	sequence := cfg.Model.Context
	s, err := state.Create(ctx, dev, state.Config{Definition: def, Optimizer: optimizer, Batch: batch, Sequence: sequence, Seed: 1})
	if err != nil {
		return f, err
	}
	defer s.Release()
	tokens := data.Batch{Tokens: make([]int32, batch*sequence), Labels: make([]int32, batch*sequence), Rows: batch, Count: batch * sequence}
	key := prng.NewKey(1)
	for i := range tokens.Tokens {
		tokens.Tokens[i] = int32(key.Bits32(uint64(i)) % uint32(def.Vocab()))
		tokens.Labels[i] = int32(key.Bits32(uint64(i+1)) % uint32(def.Vocab()))
	}
	const warm, steps = 3, 15
	var times []time.Duration
	var before gpu.Counters
	for i := range warm + steps {
		if i == warm {
			before = dev.Counters()
		}
		start := time.Now()
		if _, err := s.TrainStep(ctx, tokens); err != nil {
			return f, err
		}
		if err := dev.Wait(ctx); err != nil {
			return f, err
		}
		if i >= warm {
			times = append(times, time.Since(start))
		}
	}
	after := dev.Counters()
	slices.Sort(times)
	step := times[len(times)/2]
	f.Millis = step.Seconds() * 1e3
	f.TokensPerSecond = float64(tokens.Count) / step.Seconds()
	f.Dispatches = int(after.Dispatches-before.Dispatches) / steps
	f.Bytes = (after.WrittenBytes - before.WrittenBytes + after.ReadBytes - before.ReadBytes) / steps
	_, err = s.Drain(ctx)
	return f, err
}

// benchTraining reports the training step, as a ratio to PyTorch's on the
// processor of this machine where Python has it.
func benchTraining(ctx context.Context, dev *gpu.Device, report func(figure) error) error {
	f, err := measureTraining(ctx, dev)
	if err != nil {
		return err
	}
	line := figure{Bench: "train default model", Value: f.TokensPerSecond, Unit: "tokens/s", Millis: f.Millis, Dispatches: f.Dispatches, Bytes: f.Bytes}
	peer, err := torchTokensPerSecond(ctx)
	if err != nil {
		return err
	}
	if peer > 0 {
		line.Ratio, line.Of = f.TokensPerSecond/peer, fmt.Sprintf("PyTorch's %.0f on the processor", peer)
	}
	return report(line)
}

//go:embed torch_gpt.py
var torchProgram string

// torchTokensPerSecond trains the default run's model with PyTorch on the
// processor; 0 where no Python here has PyTorch.
func torchTokensPerSecond(ctx context.Context) (float64, error) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, python, "-c", "import torch").Run() != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, python, "-c", torchProgram).Output()
		if err != nil {
			return 0, fmt.Errorf("bench: PyTorch: %w", err)
		}
		return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	}
	return 0, nil
}
