// Command embedding trains a small GPT-2 on books/*.txt, as any Go program can. docs/embedding.md quotes it from main on.
package main

import (
	"context"
	"fmt"
	"log"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

func main() {
	ctx := context.Background()
	dev := must(gpu.Open(ctx, must(gpu.Select("")), gpu.Options{})) // the best adapter, or $GPUTRAIN_ADAPTER
	defer dev.Release()
	text := must(texts.Open(ctx, texts.Config{Text: []string{"books/*.txt"}, Context: 64}))
	defer text.Close()
	loader := must(data.NewLoader(text.Train, data.LoaderConfig{Context: 64, Batch: 8, Seed: 42, Prefetch: 2}))
	defer loader.Close()
	st := must(state.Create(ctx, dev, state.Config{
		Definition: must(model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 64, Vocab: 256, Context: 64})),
		Optimizer:  optim.Config{Name: "adamw", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 0.003}}},
		Batch:      8, Seed: 42,
	}))
	defer st.Release()
	for st.Step() < 60 {
		for _, m := range must(st.TrainStep(ctx, must(loader.Next(ctx)))) { // one submit; the metrics come a step late
			fmt.Printf("step %d: loss %.3f\n", m.Step, m.Loss)
		}
	}
	if err := st.Save(ctx, "trained", checkpoint.Run{}); err != nil { // in the Hugging Face layout
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
