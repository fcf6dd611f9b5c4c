package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/lab/scaling"
	"gputrain/gpu"
	"gputrain/internal/ranks/cluster"
	"gputrain/pipeline/partition"
	"gputrain/run/setup"
	"gputrain/state"
)

// BenchmarkManyRanks prints the table of many ranks in tools/lab-book.md. A name chooses rows: -bench ManyRanks/1.5B,_AdamW.
func BenchmarkManyRanks(b *testing.B) {
	small := []string{"model.kind=qwen2", "model.layers=28", "model.width=1536", "model.heads=12", "model.kv_heads=2", "model.intermediate=8960", "model.vocab=151936", "model.tie_head=true"}
	large := []string{"model.kind=llama", "model.layers=32", "model.width=4096", "model.heads=32", "model.kv_heads=32", "model.intermediate=11008", "model.vocab=32000", "pipeline.stages=8"}
	for _, of := range []struct {
		name      string
		model     []string
		optimizer string
	}{{"1.5B, AdamW", small, "adamw"}, {"1.5B, Quad", small, "quad"}, {"7B, AdamW", large, "adamw"}, {"7B, Quad", large, "quad"}} {
		b.Run(of.name, func(b *testing.B) {
			set := append(slices.Clone(of.model), "model.context=2048", "train.batch=1", "train.accumulate=1024", "train.recompute=layers", "optimizer.name="+of.optimizer)
			for _, ranks := range []int{2, 8, 64, 1024} {
				fmt.Printf("| %s | %d |%s\n", of.name, ranks, manyRanks(b, set, ranks))
			}
		})
	}
}

// manyRanks is a row: on cards of which a quarter of the published figures is taken, in steps of 10 and 100 Gbit/s.
func manyRanks(b *testing.B, set []string, ranks int) (row string) {
	b.Helper()
	c := planCmd{runFlags: runFlags{Set: set}}
	cfg, err := c.load()
	require.NoError(b, err)
	p, err := setup.Plan(cfg, b.Output())
	require.NoError(b, err)
	st := p.State
	units, err := setup.Units(cfg, st)
	require.NoError(b, err)
	a, rated := card{}.adapter(false), cards[0]
	power := partition.Power{Speed: rated.Times(0.25)}
	r := scaling.Run{Units: units, Each: 1}
	for range cfg.Pipeline.Stages {
		a.Index--
		on := gpu.DryOf(a, a.Limits)
		on.Assume(power.Speed, 0)
		r.On, r.Powers = append(r.On, on), append(r.Powers, power)
	}
	r.Cut, err = partition.Auto(units, cfg.Pipeline.Stages, cfg.Pipeline.PartsPerStage(), r.Powers)
	require.NoError(b, err)
	r.Config = setup.Pipeline(cfg, r.Cut)
	r.Config.State = st
	planned, err := state.NewJob(st)
	require.NoError(b, err)
	r.Again, err = planned.Again()
	require.NoError(b, err)
	job, err := r.Job(context.Background())
	require.NoError(b, err)
	var steps []scaling.Step
	for _, network := range []float64{1.25e9, 12.5e9} {
		for _, divided := range []bool{false, true} {
			step, err := job.On(ranks, divided, scaling.Speeds{Network: network, Message: scaling.MessageSeconds, Copy: 12e9, Add: 4.5e9, Bucket: float64(cluster.DefaultBucket(ranks))})
			require.NoError(b, err)
			steps = append(steps, step)
		}
	}
	for _, s := range steps {
		digits := 3
		if s.Seconds >= 1000 {
			digits = 4
		}
		row += fmt.Sprintf(" %.*g s, %.0f %% |", digits, s.Seconds, 100*s.Transfer)
	}
	return row + fmt.Sprintf(" %.0f %% | %.0f | %.0f |", 100*steps[0].Bubble, float64(steps[0].Memory)/1e9, float64(steps[1].Memory)/1e9)
}
