package train

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/internal/formats"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data/texts"
)

// pairsRun is a run that learns pairs, with adapters of its network, in microbatches of a pair. base "": the network itself.
func pairsRun(t *testing.T, prefer model.Objective, base string) Config {
	t.Helper()
	c := tinyRun(t, t.TempDir())
	var rows strings.Builder
	format := prefer.Row().Form
	for i := range 24 {
		if format == formats.Labelled {
			fmt.Fprintf(&rows, "{\"prompt\": [%d, 7], \"completion\": [%d, 9], \"label\": true}\n", i+1, 3*i+1)
			fmt.Fprintf(&rows, "{\"prompt\": [%d, 7], \"completion\": [%d, %d, 8], \"label\": 0}\n", i+1, 2*i+5, i+30)
			continue
		}
		fmt.Fprintf(&rows, "{\"prompt\": [%d, 7], \"chosen\": [%d, 9], \"rejected\": [%d, %d, 8]}\n", i+1, 3*i+1, 2*i+5, i+30)
	}
	file := filepath.Join(t.TempDir(), "pairs.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(rows.String()), 0o666))
	corpus, err := texts.Open(t.Context(), texts.Config{JSONL: []string{file}, Format: format, PerWindow: prefer.PerWindow(16), Vocab: 256, Validation: 0.2, Context: 16})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	if base != "" {
		c = upon(t, c, base)
	}
	c.State.Objective, c.State.Microbatches, c.State.Documents = prefer, 3, prefer.Packed
	if prefer.WantsReference(c.State.Definition) {
		c.State.Definition, err = model.WithReference(c.State.Definition)
		require.NoError(t, err)
		c.State.Consulted = model.ReferenceOf(c.State.Definition, model.Drawn(model.Student(c.State.Definition), c.State.Seed))
	}
	c.Train, c.Validation = corpus.Train, corpus.Validation
	c.Steps, c.EvalEvery, c.SaveEvery, c.SampleEvery, c.Sample.Tokens = 4, 2, Every(2), 0, 0
	return c
}

// TestPairsOnStagesAndRanks stops a run on pairs at each step and goes on, cuts its model in two, and gives its microbatches to two ranks, and all of it
// at once: losses, figures of pairs in steps and evaluations, and parameters have the bits of one device that nothing has disturbed.
func TestPairsOnStagesAndRanks(t *testing.T) {
	t.Setenv("GPUTRAIN_TEXELS", "off")
	dev, base := gputest.Device(t), filepath.Join(t.TempDir(), "base")
	exportDrawn(t, base, tinyRun(t, "").State.Definition)
	losses := []struct {
		model.Objective
		base string
	}{
		{model.Objective{Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.5, "label_smoothing": 0.1}}, base},
		{model.Objective{Loss: "ipo", Numbers: map[string]float64{"beta": 0.5}}, ""},
		{model.Objective{Loss: "orpo", Numbers: map[string]float64{"orpo_lambda": 0.3}}, base},
	}
	if testing.Short() {
		losses = losses[:2]
	}
	weighed := map[string]float64{"beta": 0.5, "desirable_weight": 1, "undesirable_weight": 0.7}
	losses = append(losses, []struct {
		model.Objective
		base string
	}{ // which look at all rows of an update before its first backward pass
		{model.Objective{Loss: "kto", Numbers: weighed}, ""},
		{model.Objective{Loss: "bco", Numbers: weighed}, ""},
		{model.Objective{Loss: "apo_zero_unpaired", Numbers: weighed, Packed: true}, ""},
		{model.Objective{Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.5}, Packed: true}, base},
		{model.Objective{Loss: "kto", Numbers: weighed}, base},
		{model.Objective{Loss: "bco", Numbers: weighed}, base},
		{model.Objective{Loss: "aot", Numbers: map[string]float64{"beta": 0.5}}, ""},
	}[:map[bool]int{false: 7, true: 1}[testing.Short()]]...)
	for _, of := range losses {
		prefer, base := of.Objective, of.base
		whole := pairsRun(t, prefer, base)
		ran(t, dev, whole)
		want := leftBy(t, whole.Dir)
		steps, evals, err := ReadMetrics(whole.Dir)
		require.NoError(t, err)
		require.Len(t, evals, 2)
		per := prefer.Row().Group
		if prefer.Packed {
			assert.Greater(t, steps[len(steps)-1].Tokens, int64(6*len(steps)), "windows have several")
		} else {
			assert.EqualValues(t, 6/per*len(steps), steps[len(steps)-1].Tokens, "six rows a step")
			assert.EqualValues(t, 6/per, evals[0].Tokens, "six rows of 16 are 96 of the 100 tokens of an evaluation")
		}
		assert.NotEqual(t, evals[0].Figures["margin"], evals[1].Figures["margin"])
		for k, row := range []struct {
			name          string
			ranks, stages int
			stops         []int64
		}{
			{"stopped", 1, 1, []int64{1, 2, 3}},
			{"on two stages", 1, 2, nil},
			{"on two ranks", 2, 1, nil},
			{"stopped on two ranks of two stages", 2, 2, []int64{2}},
		} {
			if testing.Short() && k < 3 {
				continue // the last row is all of the others at once
			}
			t.Run(fmt.Sprint(prefer.Loss, map[bool]string{true: " packed"}[prefer.Packed], " ", row.name), func(t *testing.T) {
				c := pairsRun(t, prefer, base)
				stopped(t, dev, c, row.ranks, row.stages, row.stops)
				requireSame(t, want, leftBy(t, c.Dir))
			})
		}
	}
}

// TestReferenceOfTheStart has a reference that is the network as training began: rewards of 0 at step 1, the same run where the file of its log-probabilities is
// lost in between, and a refusal where it is lost and the weights that training began with are, too, or where the file is of another text.
func TestReferenceOfTheStart(t *testing.T) {
	dev, base := gputest.Device(t), filepath.Join(t.TempDir(), "base")
	prefer := model.Objective{Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.5}}
	c := pairsRun(t, prefer, "")
	exportDrawn(t, base, c.State.Definition)
	c.Params, c.From = model.Init(c.State.Definition, 5), base
	ran(t, dev, c)
	steps, evals, err := ReadMetrics(c.Dir)
	require.NoError(t, err)
	assert.InDelta(t, math.Ln2, float64(steps[0].Loss), 0.02, "but for dropout the two networks are one")
	assert.NotZero(t, evals[0].Figures["margin"])
	raw, err := os.ReadFile(filepath.Join(c.Dir, referenceFile))
	require.NoError(t, err)
	values, err := safetensors.Parse(raw)
	require.NoError(t, err)
	assert.Equal(t, []string{"train", "validation"}, values.Names())

	stopped := func() Config {
		s := c
		s.Dir = filepath.Join(t.TempDir(), "stopped")
		s.Hooks = []Hook{on(StepEnd, 2, func(context.Context, Event) error { return ErrStopped })}
		_, err := Run(t.Context(), dev, s)
		require.ErrorIs(t, err, ErrStopped)
		s.Hooks = nil
		return s
	}
	s := stopped()
	require.NoError(t, os.Remove(filepath.Join(s.Dir, referenceFile)))
	ran(t, dev, s)
	requireSame(t, leftBy(t, c.Dir), leftBy(t, s.Dir))
	again, err := os.ReadFile(filepath.Join(s.Dir, referenceFile))
	require.NoError(t, err)
	assert.Equal(t, raw, again)

	s = stopped()
	require.NoError(t, os.Remove(filepath.Join(s.Dir, referenceFile)))
	s.Params = model.Init(c.State.Definition, 6)
	_, err = Run(t.Context(), dev, s)
	require.ErrorContains(t, err, "reference.safetensors is missing, and model.from or lora.from has other weights than the run began with")

	kto := pairsRun(t, model.Objective{Loss: "kto", Numbers: map[string]float64{"beta": 0.5, "desirable_weight": 1, "undesirable_weight": 1}}, "")
	begun := c
	kto.From, kto.Params, kto.State.Consulted = base, c.Params, model.ReferenceOf(kto.State.Definition, c.Params)
	c = kto
	s = stopped()
	s.Params = model.Init(model.Student(s.State.Definition), 6)
	_, err = Run(t.Context(), dev, s)
	require.ErrorContains(t, err, "model.from or lora.from has other weights than the run began with, which its reference is of")

	c = begun
	s = stopped()
	other := bytes.Replace(raw, []byte(`"context":"16"`), []byte(`"context":"17"`), 1)
	require.NotEqual(t, raw, other)
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, referenceFile), other, 0o666))
	_, err = Run(t.Context(), dev, s)
	require.ErrorContains(t, err, `reference.safetensors: context: found "17", wanted "16"`)
}
