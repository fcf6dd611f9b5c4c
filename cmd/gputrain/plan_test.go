package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/state"
)

func TestSpan(t *testing.T) {
	for want, names := range map[string]string{
		"embedding":                    "embedding",
		"head":                         "head",
		"embedding, head":              "embedding head",
		"h.0":                          "h.0",
		"h.0, h.1":                     "h.0 h.1",
		"h.0 to h.2":                   "h.0 h.1 h.2",
		"embedding, h.0":               "embedding h.0",
		"embedding, h.0 to h.3, head":  "embedding h.0 h.1 h.2 h.3 head",
		"h.9, h.10, head":              "h.9 h.10 head",
		"layers.0 to layers.2":         "layers.0 layers.1 layers.2",
		"model.layers.3, head":         "model.layers.3 head",
		"embedding, h.0, h.1":          "embedding h.0 h.1",
		"embedding, h.0 to h.11, head": "embedding h.0 h.1 h.11 head",
	} {
		assert.Equal(t, want, span(strings.Fields(names)))
	}
}

func TestPlanAsText(t *testing.T) {
	available := uint64(3 << 20)
	p := planned{
		Model: "gpt2", Parameters: 1000, Schedule: "interleaved", Microbatches: 4, Rows: 2, Sequence: 16, Bubble: 0.25, Picture: "stage 0  00'\n",
		Host:      hostOf(state.HostPlan{Program: 3 << 20, Staging: 2 << 20, Copy: 6 << 20, Free: 5 << 20, Reserve: 1 << 20}, true),
		Recompute: "attention", Choices: []plannedChoice{
			{Recompute: "none", Activations: 1 << 30, Planned: 5 << 30}, {Recompute: "attention", Activations: 1 << 20, Planned: 1026 << 10, Again: 0.3, Fits: true},
		},
		Advice: []advised{{Set: []string{"optimizer.name=lion", "optimizer.parameters={}"}, Planned: 1023 << 20, Fits: true, means: "one moment a parameter"}},
		Stages: []plannedStage{
			{Adapter: "0: one", Parts: [][]string{{"embedding"}, {"h.1"}}, Params: 600, Planned: 1 << 20, Available: &available, Busy: 0.8, Memory: "params 1.0 MiB", plannedSubmits: plannedSubmits{Submits: 12, LongestSubmit: 0.493}, Speed: gpu.Speed{FLOPS: 1e12, BytesPerSecond: 100e9}},
			{Stage: 1, Adapter: "1: another", Parts: [][]string{{"h.0"}, {"h.2", "head"}}, Params: 400, Planned: 2048, Busy: 0.7, Index: 1, Memory: "params 2.0 KiB", plannedSubmits: plannedSubmits{Submits: 1, LongestSubmit: 2, TooLong: "and so on"}, Speed: gpu.Speed{FLOPS: 3e10, BytesPerSecond: 10e9}},
		},
	}
	var out bytes.Buffer
	require.NoError(t, p.write(&out))
	assert.Equal(t, strings.Join([]string{
		"gpt2, 1000 parameters; microbatches an update: 4, of 2 x 16 tokens",
		"schedule interleaved, 25 % bubble expected",
		"",
		"STAGE  LAYERS           PARAMETERS  PLANNED  OF       BUSY",
		"0      embedding | h.1  600         1.0 MiB  3.0 MiB  80 %",
		"1      h.0 | h.2, head  400         2.0 KiB  unknown  70 %",
		"",
		"stage 0: 0: one",
		"stage 0: params 1.0 MiB",
		"stage 0: 12 submits a step, the longest of 0.49 s at 1 TFLOP/s and 100 GB/s, which training measures",
		"stage 1: 1: another",
		"stage 1: params 2.0 KiB",
		"stage 1: 1 submits a step, the longest of 2 s at 0.03 TFLOP/s and 10 GB/s, which training measures; and so on",
		"host: program 3.0 MiB, staging of checkpoints 2.0 MiB, copy of a checkpoint 6.0 MiB, of 5 MiB left beside devices and",
		"  a reserve of 1 MiB: not taken, training waits while a checkpoint is written (train.save_async)",
		"",
		"RECOMPUTE  ACTIVATIONS  PLANNED   FITS  WORK",
		"none       1.00 GiB     5.00 GiB  no    +0 %",
		"attention  1.0 MiB      1.0 MiB   yes   +10 %, planned with above",
		"",
		"INSTEAD                 PLANNED     FITS  WITH",
		"one moment a parameter  1023.0 MiB  yes   optimizer.name=lion optimizer.parameters={}",
		"",
		"stage 0  00'",
		"",
	}, "\n"), out.String())
}

// Stages on other ranks are planned with adapters of this machine, which is said; replicas come in multiples of their ranks.
func TestPlanOfStagesOnRanks(t *testing.T) {
	gputest.Adapters(t)
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	plan := func(ranks int, sets ...string) (*planned, error) {
		c := planCmd{runFlags: runFlags{Set: append(sets, "model.width=16", "model.layers=4", "train.batch=4", "train.accumulate=4", "pipeline.stages=3")}, Ranks: ranks, Network: "10Gbit"}
		cfg, err := c.load()
		require.NoError(t, err)
		return c.plan(t.Context(), cfg)
	}
	p, err := plan(4, "pipeline.adapters=['0:0', '1:99', '0:0']")
	require.NoError(t, err)
	assert.Contains(t, p.Note, "adapters of this machine stand for those of other ranks")
	for i, rank := range []int{0, 1, 0} {
		assert.Equal(t, rank, p.Stages[i].Rank)
		assert.Regexp(t, `^\d: `, p.Stages[i].Adapter)
		if rank == 1 {
			assert.Nil(t, p.Stages[i].Available)
		}
	}
	var ranks []int
	for _, s := range p.Ranks.Steps {
		ranks = append(ranks, s.Ranks)
	}
	assert.Equal(t, []int{2, 4, 4}, ranks)
	most := max(p.Stages[0].Planned+p.Stages[2].Planned, p.Stages[1].Planned)
	assert.InEpsilon(t, most, p.Ranks.Steps[0].Memory, 0.01, "of the rank that takes most")
	_, err = plan(3, "pipeline.adapters=['0:0', '1:99', '0:0']")
	assert.ErrorContains(t, err, "--ranks: found 3, wanted a multiple of the 2")
	_, err = plan(1<<20 + 2)
	assert.ErrorContains(t, err, "--ranks: found 1048578, wanted 1 to 1048576")
}

func TestPlanOfARun(t *testing.T) {
	gputest.Adapters(t)
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	plan := func(sets ...string) (*planned, error) {
		c := planCmd{runFlags: runFlags{Set: append([]string{"model.width=16", "model.layers=4", "train.batch=4", "train.accumulate=2"}, sets...)}}
		cfg, err := c.load()
		if err != nil {
			return nil, err
		}
		return c.plan(t.Context(), cfg)
	}
	p, err := plan("pipeline.stages=2", "pipeline.microbatches=2")
	require.NoError(t, err)
	assert.Equal(t, 4, p.Microbatches)
	assert.Equal(t, 2, p.Rows)
	require.Len(t, p.Stages, 2)
	assert.Equal(t, p.Parameters, p.Stages[0].Params+p.Stages[1].Params)
	assert.Equal(t, 12*uint64(p.Parameters), p.Host.Copy, "parameters and two moments")
	assert.True(t, p.Host.Copies)
	waiting, err := plan("pipeline.stages=2", "pipeline.microbatches=2", "train.save_async=false", "optimizer.name=lion")
	require.NoError(t, err)
	assert.Equal(t, 8*uint64(p.Parameters), waiting.Host.Copy)
	assert.False(t, waiting.Host.Copies)
	for _, s := range p.Stages {
		assert.Greater(t, s.Planned, 16*uint64(s.Params), "parameters, gradients, two moments, and activations")
		assert.Contains(t, s.Memory, "activations")
		assert.Greater(t, s.Busy, 0.3)
		assert.LessOrEqual(t, s.Busy, 1.0)
		assert.Greater(t, s.Submits, 4, "four microbatches and the update")
		assert.Positive(t, s.LongestSubmit)
	}
	assert.Equal(t, 2, strings.Count(p.Picture, "\n"))

	chosen := func(p *planned) (names []string, at int) {
		last := plannedChoice{Activations: 1 << 60, Planned: 1 << 60, Again: -1}
		for i, c := range p.Choices {
			names = append(names, c.Recompute)
			assert.Less(t, c.Activations, last.Activations)
			assert.Less(t, c.Planned, last.Planned)
			assert.Greater(t, c.Again, last.Again)
			if last = c; c.Recompute == p.Recompute {
				at = i
			}
		}
		return names, at
	}
	names, at := chosen(p)
	assert.Equal(t, model.Recomputes, names)
	assert.Zero(t, at, "all of it fits")
	alone, err := plan("device.texels=off")
	require.NoError(t, err)
	_, at = chosen(alone)
	assert.Zero(t, at)
	layers, err := plan("train.memory_limit="+fmt.Sprint(alone.Choices[2].Planned), "device.texels=off")
	require.NoError(t, err)
	_, at = chosen(layers)
	assert.Positive(t, at)
	assert.Equal(t, layers.Choices[at].Planned, layers.Stages[0].Planned)
	require.NoError(t, layers.refused)
	layers, err = plan("train.recompute=layers", "device.texels=off")
	require.NoError(t, err)
	assert.Equal(t, alone.Choices[2].Planned, layers.Stages[0].Planned, "asked for")

	p, err = plan("pipeline.stages=2", "pipeline.schedule=interleaved", "pipeline.devices=stage")
	require.NoError(t, err)
	assert.Len(t, p.Stages[0].Parts, 2)

	p, err = plan("pipeline.stages=2", `pipeline.rules=[{match: '^w|^h\.0', stage: 0}, {match: '^h\.[123]|^ln_f', stage: 1}]`)
	require.NoError(t, err)
	assert.Equal(t, [][]string{{"embedding", "h.0"}}, p.Stages[0].Parts)
	text, err := json.Marshal(p)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"parts":[["h.1","h.2","h.3","head"]]`)

	p, err = plan("train.memory_limit=1MiB", "train.batch=64")
	require.NoError(t, err)
	assert.Equal(t, 5, exitCode(p.refused))
	assert.ErrorContains(t, p.refused, "1.0 MiB; params ")
	assert.ErrorContains(t, p.refused, ": lower batch from 64 to ")
	assert.NotContains(t, p.refused.Error(), "recompute", "all that can be is computed again")

	for want, sets := range map[string][]string{
		"pipeline.stages (--set): pipeline: 7 stages: the model has 6 pieces":   {"pipeline.stages=7"},
		`pipeline.rules (--set): pipeline: rules: pattern "lm_head" matches no`: {"pipeline.stages=2", `pipeline.rules=[{match: '^w|^h\.[01]', stage: 0}, {match: '^h\.[23]|^ln_f', stage: 1}, {match: lm_head, stage: 1}]`},
		"pipeline.adapters (--set): found adapter 99, wanted 0 to":              {"pipeline.stages=2", "pipeline.adapters=[0,99]"},
	} {
		_, err := plan(sets...)
		require.ErrorContains(t, err, want)
	}
	_, err = plan("pipeline.stages=7")
	assert.Equal(t, 2, exitCode(err))
	p, err = plan("pipeline.stages=2", "train.memory_limit=64KiB")
	require.NoError(t, err)
	assert.Equal(t, 5, exitCode(p.refused))
	assert.ErrorContains(t, p.refused, "wanted for 2 stages, the memory limit is 64.0 KiB; stage 0: ")
}

// A run that says where its text is needs none to be planned.
func TestPlanReadsNoText(t *testing.T) {
	gputest.Adapters(t)
	file := filepath.Join(t.TempDir(), "run.yaml")
	require.NoError(t, os.WriteFile(file, []byte("model: {width: 16, layers: 2}\ndata: {text: absent.txt}\n"), 0o644))
	c := planCmd{runFlags: runFlags{Files: []string{file}}}
	cfg, err := c.load()
	require.NoError(t, err)
	p, err := c.plan(t.Context(), cfg)
	require.NoError(t, err)
	assert.Len(t, p.Stages, 1)
}

// What a run takes on ranks is computed from its plan: the work and the memory of each part are those of the run itself.
func TestPlanOfRanks(t *testing.T) {
	gputest.Adapters(t)
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	c := planCmd{Ranks: 3, Network: "1 Gbit/s", runFlags: runFlags{Set: []string{"model.width=16", "model.layers=2", "train.batch=1", "train.accumulate=4", "optimizer.name=quad"}}}
	cfg, err := c.load()
	require.NoError(t, err)
	p, err := c.plan(t.Context(), cfg)
	require.NoError(t, err)
	steps := p.Ranks.Steps
	require.Len(t, steps, 5)
	for i, want := range []struct{ ranks, microbatches int }{{1, 4}, {2, 2}, {2, 2}, {3, 2}, {3, 2}} {
		assert.Equal(t, want.ranks, steps[i].Ranks)
		assert.Equal(t, want.microbatches, steps[i].Microbatches)
	}
	assert.Equal(t, p.Stages[0].Planned, steps[0].Memory)
	for _, i := range []int{1, 3} {
		whole, divided := steps[i], steps[i+1]
		assert.True(t, divided.Sharded)
		assert.Less(t, divided.Memory, whole.Memory)
		assert.Less(t, divided.Update, whole.Update)
		assert.GreaterOrEqual(t, divided.Update*float64(whole.Ranks), whole.Update*(1-1e-9), "the most of parts of the work")
		assert.InDelta(t, whole.Passes, divided.Passes, 0)
		assert.InDelta(t, whole.Seconds, whole.Passes+whole.Sum+whole.Update, 1e-12)
	}
	assert.InDelta(t, 4*float64(p.Parameters), steps[1].Sent, 1, "half of the gradients, and half of the sums")
	var out bytes.Buffer
	require.NoError(t, p.write(&out))
	assert.Contains(t, out.String(), "joined by 1 Gbit/s: computed")
	assert.Equal(t, 2, strings.Count(out.String(), "  divided  "))
}
