package state_test

import (
	"context"
	"fmt"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// A loop of one's own.
func ExampleCreate() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	adapter, err := gpu.Select("")
	check(err)
	dev, err := gpu.Open(ctx, adapter, gpu.Options{})
	check(err)
	text, err := texts.Open(ctx, texts.Config{Text: []string{"books/*.txt"}, Context: 128})
	check(err)
	def, err := model.NewGPT2(model.GPT2Config{Layers: 4, Heads: 4, Width: 128, Vocab: 256, Context: 128})
	check(err)
	st, err := state.Create(ctx, dev, state.Config{Definition: def, Batch: 8, Seed: 42, Optimizer: optim.Config{
		Name: "adamw", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1e-3}},
	}})
	check(err)
	defer st.Release()
	loader, err := data.NewLoader(text.Train, data.LoaderConfig{Context: 128, Batch: 8, Seed: 42, Prefetch: 4})
	check(err)
	defer loader.Close()
	for st.Step() < 1000 {
		batch, err := loader.Next(ctx)
		check(err)
		metrics, err := st.TrainStep(ctx, batch)
		check(err)
		for _, m := range metrics {
			fmt.Println(m.Step, m.Loss, m.GradNorm)
		}
	}
	check(st.Save(ctx, "runs/mine/step-1000", checkpoint.Run{Data: loader.State()}))
}
