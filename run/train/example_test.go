package train_test

import (
	"context"
	"fmt"
	"os"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data/texts"
	"gputrain/run/train"
	"gputrain/state"
)

// A program of one's own that trains, stops at Ctrl-C and goes on when it is started again.
func ExampleRun() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx, stop := train.Signals(context.Background(), os.Stderr, os.Exit)
	defer stop()
	adapter, err := gpu.Select("") // the best there is
	check(err)
	dev, err := gpu.Open(ctx, adapter, gpu.Options{})
	check(err)
	defer dev.Release()
	text, err := texts.Open(ctx, texts.Config{Text: []string{"books/*.txt"}, Validation: 0.05, Context: 128})
	check(err)
	defer text.Close()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 4, Heads: 4, Width: 128, Vocab: 256, Context: 128})
	check(err)
	result, err := train.Run(ctx, dev, train.Config{
		State: state.Config{Definition: def, Batch: 8, Seed: 42, Optimizer: optim.Config{Name: "adamw", Options: optim.Options{
			Schedule: optim.ScheduleConfig{Type: "cosine", LearningRate: 3e-3, WarmupSteps: 50, Steps: 600}, WeightDecay: 0.1,
		}}},
		Train: text.Train, Validation: text.Validation, Fingerprint: text.Fingerprint, Prefetch: 4, Dir: "runs/books",
		Options: train.Options{Steps: 600, EvalEvery: 100, SaveEvery: train.Every(100), SaveInterval: "15m", SaveAsync: true, Keep: 3},
		Peak:    func(ctx context.Context) (float64, error) { return pipeline.Peak(ctx, []*gpu.Device{dev}) },
	})
	fmt.Println(result.Reason, result.Step, result.EvalLoss, err)
	for _, s := range result.Times {
		fmt.Println(s.Name, s.Spent)
	}
	os.Exit(result.Reason.ExitCode())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A run that begins with what another has saved, and leaves what it has trained to the program.
func ExampleRun_value() {
	ctx := context.Background()
	dev := must(gpu.Open(ctx, must(gpu.Select("")), gpu.Options{}))
	defer dev.Release()
	text := must(texts.Open(ctx, texts.Config{Text: []string{"books/*.txt"}, Context: 128}))
	defer text.Close()
	v, record, err := state.LoadValue(ctx, dev, "runs/old/checkpoints/step-00000600", state.LoadOptions{})
	if err != nil {
		panic(err)
	}
	defer func() { v.Release() }()
	result := must(train.Run(ctx, dev, train.Config{
		Value: &v, State: state.Config{Batch: 8, Seed: 42}, // model and optimizer are the value's
		Train: text.Train, Fingerprint: text.Fingerprint, Dir: "runs/new",
		Options: train.Options{Steps: record.Step + 100},
	}))
	fmt.Println(result.Step, v) // what to do with it is yours: ApplyGradients, Place, Save, the next run
}

// The same over two adapters: the model is cut so that the slower stage is as fast as can be.
func ExampleRunOn() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	var devices []*gpu.Device
	for _, selector := range []string{"0", "1"} {
		adapter, err := gpu.Select(selector)
		check(err)
		dev, err := gpu.Open(ctx, adapter, gpu.Options{})
		check(err)
		defer dev.Release()
		devices = append(devices, dev)
	}
	text, err := texts.Open(ctx, texts.Config{Text: []string{"books/*.txt"}, Context: 128})
	check(err)
	defer text.Close()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 4, Heads: 4, Width: 128, Vocab: 256, Context: 128})
	check(err)
	c := state.Config{Definition: def, Batch: 2, Microbatches: 4, Sequence: 128, Seed: 42, Optimizer: optim.Config{Name: "adamw", Options: optim.Options{
		Schedule: optim.ScheduleConfig{LearningRate: 3e-3},
	}}} // 4 microbatches of 2 sequences
	built, err := def.Build(c.Batch, c.Sequence, model.Options{Loss: true, Training: true})
	check(err)
	units, err := partition.Units(built)
	check(err)
	powers, err := pipeline.Powers(ctx, devices)
	check(err)
	cut, err := partition.Auto(units, len(devices), 1, powers)
	check(err)
	target := train.Pipelined(devices, pipeline.Config{Assignment: cut})
	result, err := train.RunOn(ctx, target, train.Config{State: c, Train: text.Train, Options: train.Options{Steps: 600}, Dir: "runs/books"})
	fmt.Println(result.Reason, result.Step, result.Loss, err)
}
