package state

import (
	"bytes"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state/checkpoint"
)

// A state that has become a value and been trained on has the bits of one that was never disturbed, and nothing is left behind.
func TestValueAndTrainState(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		c := tinyConfig(t)
		whole := create(t, dev, c)
		train(t, whole, 6)
		want := filepath.Join(t.TempDir(), "want")
		require.NoError(t, whole.Save(t.Context(), want, checkpoint.Run{}))
		whole.Release()
		before := dev.Counters().LiveBytes

		s := create(t, dev, c)
		train(t, s, 3)
		opt := s.Optimizers()[0]
		v, err := s.Value(t.Context())
		require.NoError(t, err)
		_, err = s.TrainStep(t.Context(), tinyBatch(3, 4, false))
		require.ErrorIs(t, err, ErrSpent)
		assert.Contains(t, s.String(), "spent")
		at, err := v.Fields()
		require.NoError(t, err)
		assert.Equal(t, at.Step, s.Step(), "it still tells the step that it ended at")
		_, err = s.Value(t.Context())
		require.ErrorIs(t, err, ErrSpent)
		require.ErrorIs(t, s.Save(t.Context(), want+"x", checkpoint.Run{}), ErrSpent)
		_, err = s.FirstNonFinite(t.Context())
		require.ErrorIs(t, err, ErrSpent)
		s.Release()
		assert.EqualValues(t, 3, fieldsOf(t, v).Step)

		s, err = Train(t.Context(), v, Config{Batch: c.Batch, Seed: c.Seed})
		require.NoError(t, err)
		_, err = v.Fields()
		require.ErrorIs(t, err, ErrSpent)
		assert.Same(t, opt, s.Optimizers()[0], "the optimizer state was not copied")
		assert.EqualValues(t, 3, s.Step())
		train(t, s, 6)
		got := filepath.Join(t.TempDir(), "got")
		require.NoError(t, s.Save(t.Context(), got, checkpoint.Run{}))
		assert.Equal(t, contents(t, want), contents(t, got))
		// The value saves the same files.
		v, err = s.Value(t.Context())
		require.NoError(t, err)
		got = filepath.Join(t.TempDir(), "value")
		require.NoError(t, v.Save(t.Context(), got, SaveOptions{}))
		assert.Equal(t, contents(t, want), contents(t, got))
		v.Release()
		assert.LessOrEqual(t, dev.Counters().LiveBytes, before+1<<10)
	})
}

// Another batch, accumulation or rate goes on with what the optimizer remembers; another optimizer is refused, and the value stays.
func TestTrainOfAnotherConfiguration(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	s := create(t, dev, c)
	train(t, s, 3)
	v, err := s.Value(t.Context())
	require.NoError(t, err)
	moments := func(v Value) []buffers.Host { return download(t, fieldsOf(t, v).OptimizerState.Trees()[0].Tree) }
	want := moments(v)
	other := c
	other.Batch, other.Microbatches, other.MeasureUpdates = 2, 2, true
	other.Optimizer.Options.Schedule = optim.ScheduleConfig{LearningRate: 3e-3}
	before := dev.Counters().LiveBytes
	wrong := c
	wrong.Optimizer = optim.Config{Name: "lion", Options: c.Optimizer.Options}
	_, err = Train(t.Context(), v, wrong)
	require.ErrorContains(t, err, "optimizer: tensor")
	wrong = c
	wrong.Definition, err = model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 16, Vocab: testV, Context: testT})
	require.NoError(t, err)
	_, err = Train(t.Context(), v, wrong)
	var fields *FieldsError
	require.ErrorAs(t, err, &fields)
	assert.LessOrEqual(t, dev.Counters().LiveBytes, before+1<<10)
	assert.Equal(t, want, moments(v))

	s, err = Train(t.Context(), v, other)
	require.NoError(t, err)
	assert.EqualValues(t, 3, s.Optimizers()[0].Counts()["updates"])
	assert.Equal(t, want, download(t, s.Optimizers()[0].Trees()[0].Tree))
	m, err := s.TrainStep(t.Context(), tinyBatch(3, 4, false))
	require.NoError(t, err)
	require.Empty(t, m)
	m, err = s.Drain(t.Context())
	require.NoError(t, err)
	assert.InDelta(t, 3e-3, m[0].LearningRate, 1e-12)
	assert.Positive(t, m[0].UpdateNorm)
	s.Release()
}

// A value whose last step was left out for its loss takes the gradients of others: what that was held to is past.
func TestValueAfterAStepThatWasLeftOut(t *testing.T) {
	dev := gputest.Device(t)
	s := create(t, dev, tinyConfig(t))
	s.SetLimits(Limits{Loss: 1e-3, GradNorm: 1e-3})
	m := train(t, s, 1)
	require.NotZero(t, m[0].Spikes)
	losses := s.Optimizers()[0].Losses()
	require.NoError(t, dev.Write(losses, bytes.Repeat([]byte{0xff}, int(losses.Bytes)))) // as a loss that is NaN leaves it
	v, err := s.Value(t.Context())
	require.NoError(t, err)
	grads := upload(t, dev, model.Init(tinyModel(t, 0), 4), buffers.F32)
	before := download(t, fieldsOf(t, v).Params)
	v, err = v.ApplyGradients(t.Context(), grads)
	require.NoError(t, err)
	after := download(t, fieldsOf(t, v).Params)
	assert.NotEqual(t, before, after)
	// Gradients that are not finite are left out, as in training.
	path := fieldsOf(t, v).Params.Layout().Leaves()[0].Path
	bad := download(t, grads)[0].Data
	bad[0] = float32(math.NaN())
	require.NoError(t, grads.Write(path, bad))
	v, err = v.ApplyGradients(t.Context(), grads)
	require.NoError(t, err)
	assert.Equal(t, after, download(t, fieldsOf(t, v).Params))
	v.Release()
}

// Variables that training does not touch stay part of what is trained, through its checkpoints too.
func TestOtherVariablesAreKept(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	other := upload(t, dev, []buffers.Host{{Path: "running/mean", Shape: []int{3}, Data: []float32{1, 2, 3}}}, buffers.F32)
	s, err := Train(t.Context(), newValue(t, Fields{Definition: c.Definition, Params: upload(t, dev, model.Init(c.Definition, 7), buffers.F32), Other: other}), c)
	require.NoError(t, err)
	t.Cleanup(s.Release)
	train(t, s, 2)
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
	again, _, err := Load(t.Context(), dev, c, dir)
	require.NoError(t, err)
	t.Cleanup(again.Release)
	got := filepath.Join(t.TempDir(), "again")
	require.NoError(t, again.Save(t.Context(), got, checkpoint.Run{}))
	assert.Equal(t, contents(t, dir), contents(t, got))
	v, err := again.Value(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 2, 3}, download(t, fieldsOf(t, v).Other)[0].Data)
	v.Release()
}

// Microbatch i reads the tokens, labels and positions that are its own.
func TestFeedOfAMicrobatch(t *testing.T) {
	c := Job{Config{Batch: 1, Sequence: 2, Microbatches: 3}}
	whole := data.Batch{Rows: 3, Tokens: []int32{1, 2, 3, 4, 5, 6}, Labels: []int32{2, 3, 4, 5, 6, 7}, Positions: []int32{0, 1, 2, 0, 1, 0}}
	for i := range 3 {
		want := data.Batch{Rows: 1, Tokens: whole.Tokens[2*i : 2*i+2], Labels: whole.Labels[2*i : 2*i+2], Positions: whole.Positions[2*i : 2*i+2], Count: 2}
		assert.Equal(t, want, c.Feed(Inputs{Batch: whole, Counts: model.Counts{Of: 6}}, i).Batch, i)
	}
}
