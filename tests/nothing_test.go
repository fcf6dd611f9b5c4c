package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/buffers"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/run/train"
	"gputrain/state"
)

// Who embeds the packages and hands over nothing where something is wanted gets an error that says what.
func TestNothingIsAnError(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 16, Vocab: 256, Context: 16})
	assert.NoError(t, err)
	config := state.Config{Definition: def, Batch: 2, Optimizer: optim.Config{Name: "adamw", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1}}}}
	for what, call := range map[string]func() error{
		"data: loader: source: found none": func() error { _, err := data.NewLoader(nil, data.LoaderConfig{Context: 1, Batch: 1}); return err },
		"data: loader: 0 tokens found": func() error {
			_, err := data.NewLoader(&data.Tokens{}, data.LoaderConfig{Context: 1, Batch: 1})
			return err
		},
		"data: evaluation: source: found none":      func() error { _, err := data.NewEvaluation(nil, 1, 1, 0); return err },
		"data: epochs: source: found none":          func() error { _, err := data.Steps(nil, 1, 1, 0, 1); return err },
		"state: device: found none":                 func() error { _, err := state.Create(ctx, nil, config); return err },
		"buffers: upload \"x\": device: found none": func() error { _, err := buffers.Upload(nil, "x", nil, buffers.F32); return err },
		"model: definition: found none":             func() error { _, err := model.WithDropout(nil, 0); return err },
		"model: export \"x\": model: definition":    func() error { return model.Export("x", nil, nil, model.ExportOptions{}) },
		"optim: adamw: init: params: found none": func() error {
			tx, err := config.Optimizer.Build()
			assert.NoError(t, err)
			_, err = tx.Init(nil)
			return err
		},
		"state: evaluate: found no evaluation":           func() error { _, err := (&state.Model{}).Evaluate(ctx, nil); return err },
		"train: target: found none":                      func() error { _, err := train.RunOn(ctx, nil, train.Config{}); return err },
		"model: found none, wanted the definition whose": func() error { return train.CheckNames([]string{"a"}, state.Config{}) },
	} {
		assert.NotPanics(t, func() { assert.ErrorContains(t, call(), what) }, what)
	}
}
