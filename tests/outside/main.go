// Command outside is a program of another module that brings a graph operation, a model family, an optimizer and an operator of its own, and trains
// with them: on one device and on two stages, at once and resumed. docs/embedding.md shows its parts.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

const steps, rows, length = 6, 2, 16 // of the run below

// trained is what one device and stages have in common.
type trained interface {
	Step() int64
	TrainStep(ctx context.Context, batch data.Batch) ([]state.Metrics, error)
	Save(ctx context.Context, path string, run checkpoint.Run) error
	Release()
}

func main() {
	ctx := context.Background()
	adapter := must(gpu.Select(""))
	devices := []*gpu.Device{must(gpu.Open(ctx, adapter, gpu.Options{})), must(gpu.Open(ctx, adapter, gpu.Options{}))}
	for _, c := range slices.Concat(compile.Checks(), optim.Checks()) {
		if c.Name == "graph running_mean" || c.Name == "optim.centred" {
			r := must(c.Run(ctx, devices[0]))
			fmt.Printf("check %s: error %.2g, at most %.2g\n", c.Name, r.MaxError, r.Tolerance)
			if !(r.MaxError <= r.Tolerance) {
				log.Fatal(r.Worst)
			}
		}
	}
	file := must(runfile.ReadAll(nil, nil, []string{ // what a run file or --set would say
		"model.kind=averages", "model.layers=2", "model.width=32", "model.context=16", "model.vocab=11", "model.tie_head=true", "optimizer.name=centred",
		"optimizer.beta=0.8", "optimizer.learning_rate=0.05", "train.steps=6", "train.batch=2", "pipeline.microbatches=2",
	}))
	config, begin, err := setup.State(file, os.Stderr)
	if err != nil {
		log.Fatal(err)
	}
	defer begin.Release()
	built := must(config.Definition.Build(1, length, model.Options{Loss: true}))
	halves := must(partition.ByRules(must(partition.Units(built)), []partition.Rule{{Match: "embed|layers.000", Stage: 0}, {Match: "layers.001", Stage: 1}}, 2, 1))
	cut := pipeline.Config{State: config, Assignment: halves}
	one, two := run(ctx, "one device", func(dir string) (trained, error) {
		if dir == "" {
			return state.Create(ctx, devices[0], config)
		}
		s, _, err := state.Load(ctx, devices[0], config, dir)
		return s, err
	}), run(ctx, "two stages", func(dir string) (trained, error) {
		if dir == "" {
			return pipeline.Create(ctx, devices, cut, nil)
		}
		s, _, err := pipeline.Load(ctx, devices, cut, dir)
		return s, err
	})
	same(one, two)
	fmt.Println("two stages end with the bits of one device")
}

// run trains at once, and in two halves with a checkpoint between them; an empty dir begins anew.
func run(ctx context.Context, name string, open func(dir string) (trained, error)) (whole string) {
	whole, half, resumed := filepath.Join(name, "whole"), filepath.Join(name, "half"), filepath.Join(name, "resumed")
	if err := os.MkdirAll(name, 0o777); err != nil {
		log.Fatal(err)
	}
	train(ctx, must(open("")), steps, whole)
	train(ctx, must(open("")), steps/2, half)
	train(ctx, must(open(half)), steps, resumed)
	same(whole, resumed)
	fmt.Printf("%s: a resumed run ends with the bits of one that was not stopped\n", name)
	return whole
}

func train(ctx context.Context, s trained, to int64, dir string) {
	defer s.Release()
	for s.Step() < to {
		for _, m := range must(s.TrainStep(ctx, batch(s.Step()))) {
			fmt.Printf("%s: step %d: loss %.3f\n", dir, m.Step, m.Loss)
		}
	}
	if err := s.Save(ctx, dir, checkpoint.Run{}); err != nil {
		log.Fatal(err)
	}
}

// batch is a text that counts in steps of three, from another number for each step and row.
func batch(step int64) data.Batch {
	b := data.Batch{Rows: rows, Count: rows * length}
	for i := range rows {
		for t := range length {
			at := int32(int(step) + 5*i + 3*t)
			b.Tokens, b.Labels = append(b.Tokens, at%11), append(b.Labels, (at+3)%11)
		}
	}
	return b
}

// same compares all that a checkpoint has of model and optimizer.
func same(a, b string) {
	for _, name := range []string{"config.json", "model.safetensors", "optimizer.safetensors"} {
		if !bytes.Equal(must(os.ReadFile(filepath.Join(a, name))), must(os.ReadFile(filepath.Join(b, name)))) {
			log.Fatalf("%s of %s and %s differ", name, a, b)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
