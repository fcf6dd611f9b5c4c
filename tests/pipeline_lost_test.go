package tests

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/data/texts"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// tinyConfig is a run of a tiny model with everything on.
func tinyConfig(t *testing.T, p *place, dir string, layers int, steps int64) train.Config {
	t.Helper()
	corpus, err := texts.Open(t.Context(), texts.Config{Text: []string{p.path("text.txt")}, Validation: 0.1, Context: 16})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	def, err := model.NewGPT2(model.GPT2Config{Layers: layers, Heads: 2, Width: 16, Vocab: 256, Context: 16, ResidualDropout: 0.1})
	require.NoError(t, err)
	clip := 1.0
	c := train.Config{
		Train: corpus.Train, Validation: corpus.Validation, Prefetch: 2,
		Options: train.Options{
			Steps: steps, EvalEvery: 20, EvalTokens: 64, SaveEvery: train.Every(5), SaveAsync: true, Keep: 2,
			SampleEvery: 50, Sample: train.SampleConfig{Prompt: "line", Tokens: 4, Temperature: 1, Seed: 3},
		},
		Dir: p.path(dir), Progress: "none", Output: io.Discard,
	}
	c.State.Definition, c.State.Batch, c.State.Microbatches, c.State.Seed = def, 2, 2, 5
	c.State.Optimizer = optim.Config{Name: "adamw", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1e-3}, ClipGrad: &clip}}
	return c
}

// stagesOn is the target of a run with a stage on each device.
func stagesOn(t *testing.T, c train.Config, kind string, devices ...*gpu.Device) train.Target {
	t.Helper()
	built, err := c.State.Definition.Build(c.State.Batch, 16, model.Options{Loss: true, Training: true})
	require.NoError(t, err)
	cut, err := partition.Even(built, len(devices))
	require.NoError(t, err)
	return train.Pipelined(devices, pipeline.Config{Assignment: cut, Schedule: kind, Timeout: gputest.Patience})
}

// A run whose device is lost, or runs out of memory, between and in the middle of its steps ends with the stage in one line; its last checkpoint
// is whole, and the run goes on in other stages to the bits of one that was left alone.
func TestRunsGoOnAfterALostStage(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "pipeline.TestDevicesLost")
	p := newPlace(t)
	const total = 30
	whole := tinyConfig(t, p, "whole", 2, total)
	_, err := train.Run(t.Context(), gputest.Device(t), whole)
	require.NoError(t, err)

	c := tinyConfig(t, p, "lost", 2, total)
	for i, kind := range []string{schedule.OneForwardOneBackward, schedule.GPipe} {
		devices := gputest.Several(t, 3-i)
		at := int64(8 + 9*i)
		c.Hooks = []train.Hook{train.HookFunc(func(_ context.Context, e train.Event) error {
			if e.Kind == train.StepBegin && e.Step == at {
				time.AfterFunc(time.Duration(2*i)*time.Millisecond, func() { devices[1].Lose("pulled out") })
			}
			return nil
		})}
		result, err := train.RunOn(t.Context(), stagesOn(t, c, kind, devices...), c)
		require.ErrorIs(t, err, gpu.ErrDeviceLost)
		assert.Equal(t, train.KindDeviceLost, result.Reason)
		assert.Regexp(t, `^state: (step \d+|evaluate|drain): stage 1 \(\d: [^\n]*pulled out$`, err.Error())
		newest(t, p.path("lost")) // none is damaged
		assert.FileExists(t, p.path("lost", "report.md"))
		for j, d := range devices {
			if j != 1 {
				assert.LessOrEqual(t, d.Counters().LiveBytes, uint64(64<<10), "given back")
			}
		}
	}
	c.Hooks = nil
	result, err := train.RunOn(t.Context(), stagesOn(t, c, schedule.OneForwardOneBackward, gputest.Several(t, 2)...), c)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, result.Resumed, int64(15))
	for _, name := range []string{"model.safetensors", "optimizer.safetensors", "state.json"} {
		file := func(dir string) string { return read(t, p.path(dir, "checkpoints", checkpoint.DirName(total), name)) }
		assert.Equal(t, file("whole"), file("lost"), name)
	}
}

// A long run in three stages holds no more at its end than after its first tenth.
func TestSoakPipelineIsFlat(t *testing.T) {
	gputest.Long(t, "state.TestSoak")
	total := int64(300)
	if soak() {
		total = 2000
	}
	p := newPlace(t)
	c := tinyConfig(t, p, "run", 2, total)
	devices := gputest.Several(t, 3)
	flat := watchFlat(t, &c, devices...)
	_, err := train.RunOn(t.Context(), stagesOn(t, c, schedule.OneForwardOneBackward, devices...), c)
	require.NoError(t, err)
	flat()
	for _, d := range devices {
		assert.LessOrEqual(t, d.Counters().LiveBytes, uint64(64<<10), "the run has given everything back")
	}
}
