package eformer_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/optim"
	"gputrain/pipeline/eformer"
	"gputrain/state"
)

// What is wrong is found before anything has changed.
func TestStageLocalRefuses(t *testing.T) {
	devices := several(t, 2)
	clip := 1.0
	tx := stageLocal(t, "adamw", optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1}, ClipGrad: &clip}, `{}`)
	r := r1()
	s := newStaged(t, devices, tx, draw(r, 1), halves)
	s.write(draw(r, 1))
	other := newStaged(t, devices, tx, draw(r, 1), halves)
	other.call(draw(r, 1))
	before := s.bits()
	upload := func(d *gpu.Device, h ...buffers.Host) *buffers.Tree {
		tree, err := buffers.Upload(d, "grads", h, buffers.F32)
		require.NoError(t, err)
		t.Cleanup(tree.Release)
		return tree
	}
	changed := func(change func(r *state.Resident)) []state.Resident {
		stages := slices.Clone(s.stages)
		change(&stages[1])
		return stages
	}
	for want, stages := range map[string][]state.Resident{
		"found no stages": nil,
		`gather norms: leaf "e.empty": found it in none of 1 places`:   s.stages[:1],
		"stage 1: state: found one stage twice":                        {s.stages[0], s.stages[0]},
		"stage 1: found no params or no state":                         changed(func(r *state.Resident) { r.State = nil }),
		"stage 1: counts: found map[clip_by_global_norm:1":             {s.stages[0], other.stages[1]},
		`params: leaf "e.empty" is missing`:                            changed(func(r *state.Resident) { r.Params = upload(devices[1], s.on(1, draw(r1(), 1))[1:]...) }),
		"params: found a tree of another device than the state's":      changed(func(r *state.Resident) { r.Params = s.stages[0].Params }),
		`stage 1: grads: leaf "x" of shape [1]: found no such param`:   changed(func(r *state.Resident) { r.Grads = upload(devices[1], one("x")) }),
		`stage 1: grads: leaf "g.tall" of shape [1]: found no such pa`: changed(func(r *state.Resident) { r.Grads = upload(devices[1], one("g.tall")) }),
		"stage 1: gpu: record \"gputrain.eformer.apply\": command 0":   changed(func(r *state.Resident) { r.Grads = upload(devices[0], s.on(1, draw(r1(), 1))[2]) }),
	} {
		err := tx.ApplyGradientsStageLocal(t.Context(), eformer.Application{Stages: stages})
		assert.ErrorContains(t, err, want)
		sameState(t, before, s.bits())
		assert.Equal(t, int64(0), s.stages[0].State.Counts()["updates"], want)
	}
	none := eformer.StageLocal{}.ApplyGradientsStageLocal(t.Context(), eformer.Application{})
	assert.ErrorContains(t, none, "found the zero value")
	assert.ErrorIs(t, none, errors.ErrUnsupported)
	err := tx.ApplyGradientsStageLocal(t.Context(), eformer.Application{Stages: s.stages, LearningRate: func(int64) float64 {
		devices[1].Lose("pulled out") // when stage 0 is asked for its rate
		return 1
	}})
	require.ErrorIs(t, err, gpu.ErrDeviceLost)
	assert.ErrorContains(t, err, "stage 1")
	assert.Equal(t, int64(0), s.stages[0].State.Counts()["updates"], "no stage has begun")
}

func r1() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }

func one(path string) buffers.Host {
	return buffers.Host{Path: path, Shape: []int{1}, Data: []float32{1}}
}

func TestUnsupportedStageLocalSaysWhatToDo(t *testing.T) {
	d := gputest.Device(t, stageLocalLimits)
	start := draw(r1(), 1)
	tx := eformer.Unsupported(optim.Scale(-1), "soap", "its eigenvectors are of whole matrices")
	w := newWhole(t, d, tx, start)
	err := tx.ApplyGradientsStageLocal(t.Context(), eformer.Application{Stages: w.stages})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	for _, want := range []string{`optimizer "soap"`, "(its eigenvectors are of whole matrices)", "implement an ApplyFunc", "MakeStageLocal"} {
		assert.ErrorContains(t, err, want)
	}
	assert.ErrorContains(t, eformer.Unsupported(optim.Scale(1), "soap", "").ApplyGradientsStageLocal(t.Context(), eformer.Application{}), "stage-local path, wanted")
	w.call(start)
	for _, h := range w.params() {
		for _, v := range h.Data {
			require.Zero(t, v, "p - p: its update works as before")
		}
	}
}

// A path of one's own gets metadata, the rate, and gradients clipped by the norm of all stages.
func TestMakeStageLocal(t *testing.T) {
	devices := several(t, 2)
	clip := 2.5
	m, err := eformer.NewMetadata(optim.Config{Name: "sgd", Options: optim.Options{ClipGrad: &clip}}, map[string]any{"factor": 2.0})
	require.NoError(t, err)
	var seen []buffers.Host
	tx, err := eformer.MakeStageLocal(optim.Scale(-1), m, func(ctx context.Context, m eformer.Metadata, a eformer.Application) error {
		for _, r := range a.Stages {
			hosts, err := r.Grads.Download(ctx)
			if err != nil {
				return err
			}
			seen = append(seen, hosts...)
		}
		factor, given := m.Extra("factor")
		assert.True(t, given)
		assert.Equal(t, 2.0, factor)
		assert.Equal(t, 0.5, a.LearningRate(3))
		return eformer.InRounds(optim.Scale(-1))(ctx, m, a)
	})
	require.NoError(t, err)
	grads := draw(r1(), 0)
	grads[1].Data[5], grads[6].Data[9] = 3, -4
	s := newStaged(t, devices, tx, draw(r1(), 0), halves)
	s.write(grads)
	a := eformer.Application{Stages: s.stages, LearningRate: optim.Constant(0.5), ReleaseGradients: true}
	require.NoError(t, tx.ApplyGradientsStageLocal(t.Context(), a))
	require.Len(t, seen, len(stageLocalModel))
	norm := 0.0
	for _, h := range seen {
		for _, v := range h.Data {
			norm += float64(v) * float64(v)
		}
	}
	assert.InDelta(t, 2.5, math.Sqrt(norm), 1e-6)
	assert.InDelta(t, -1.5, s.params()[1].Data[5], 1e-6)
	assert.ErrorContains(t, tx.ApplyGradientsStageLocal(t.Context(), eformer.Application{Stages: s.stages[1:]}), "found 4 leaves in 1 stages, wanted the 8")

	_, err = eformer.MakeStageLocal(optim.Scale(1), m, nil)
	assert.ErrorContains(t, err, "scale: apply: found none")
	m, err = eformer.NewMetadata(optim.Config{Name: "sgd", Options: optim.Options{AccumulationSteps: 4}}, nil)
	require.NoError(t, err)
	_, err = eformer.MakeStageLocal(optim.Scale(1), m, eformer.InRounds(optim.Scale(1)))
	assert.ErrorContains(t, err, "accumulation_steps: found 4, wanted 1")
}

func TestMetadataCannotBeChanged(t *testing.T) {
	clip := 0.5
	extra := map[string]any{"a": 1}
	c := optim.Config{Name: "adamw", Options: optim.Options{
		Schedule: optim.ScheduleConfig{Type: "linear", LearningRate: 1, LearningRateEnd: new(0.0), Steps: 4},
		ClipGrad: &clip, WeightDecay: 0.1, WeightDecayMask: optim.MaskPatterns("w"), AccumulationSteps: 3,
	}}
	tx, err := eformer.NewStageLocal(c, extra)
	require.NoError(t, err)
	m := tx.Metadata()
	clip, extra["a"] = 7, 2
	c.Options.WeightDecayMask.Patterns[0] = "changed"
	m.WeightDecayMask().Patterns[0] = "changed"
	m.Optimizer().Parameters[3] = 'x'
	limit, clips := m.ClipGrad()
	assert.True(t, clips)
	assert.Equal(t, 0.5, limit)
	assert.Equal(t, []string{"w"}, m.WeightDecayMask().Patterns)
	assert.Equal(t, 0.1, m.WeightDecay())
	assert.Equal(t, 3, m.AccumulationSteps())
	assert.Equal(t, 0.75, m.Schedule()(1))
	value, given := m.Extra("a")
	assert.Equal(t, []any{1, true}, []any{value, given})
	_, given = m.Extra("b")
	assert.False(t, given)
	assert.Equal(t, "adamw", m.Optimizer().Name)
	assert.Contains(t, string(m.Optimizer().Parameters), `"b2":0.999`, "with all defaults")

	zero := eformer.Metadata{}
	assert.Nil(t, zero.Schedule())
	assert.Nil(t, zero.WeightDecayMask())
	assert.Equal(t, 1, zero.AccumulationSteps())
	_, clips = zero.ClipGrad()
	assert.False(t, clips)
	_, err = eformer.NewMetadata(optim.Config{Name: "adamv"}, nil)
	assert.ErrorContains(t, err, `optimizer: found "adamv"`)
}
