package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/data"
	"gputrain/train/runfile"
)

func TestDataConfig(t *testing.T) {
	end := 300
	for _, c := range []struct {
		sets  []string
		want  data.Config
		vocab int
	}{
		{
			[]string{"data.text=a"},
			data.Config{Text: []string{"a"}, Tokens: "bytes", Vocab: 256, Layout: data.Layout{Packing: "first_fit", Long: "split"}},
			256,
		},
		{
			[]string{"data.jsonl=a", "data.eos=300", "data.field=f", "data.prompt_field=p", "data.mask_field=m", "data.packing=greedy", "data.long=keep_end"},
			data.Config{JSONL: []string{"a"}, Tokens: "bytes", Vocab: 301, Fields: data.Fields{Text: "f", Prompt: "p", Mask: "m"}, Layout: data.Layout{End: &end, Packing: "greedy", Long: "keep_end"}},
			301,
		},
		{
			[]string{"data.mixture=[{text: a, weight: 2}, {jsonl: b, weight: 1, field: f, prompt_field: p, mask_field: m}]", "data.mixture_end=all_exhausted", "data.tokens=u16", "model.vocab=70000"},
			data.Config{
				Mixture: []data.Part{
					{Text: []string{"a"}, Weight: 2},
					{JSONL: []string{"b"}, Fields: data.Fields{Text: "f", Prompt: "p", Mask: "m"}, Weight: 1},
				},
				MixtureEnd: "all_exhausted", Tokens: "u16", Vocab: 1 << 16, Layout: data.Layout{Packing: "first_fit", Long: "split"},
			},
			70000,
		},
	} {
		cfg, err := runfile.ReadAll(nil, nil, append(c.sets, "model.width=8", "model.layers=1", "data.validation=0.25"))
		require.NoError(t, err)
		def, _, err := definition(cfg)
		require.NoError(t, err)
		assert.Equal(t, c.vocab, def.Vocab())
		got := dataConfig(cfg, def, 32)
		c.want.Validation, c.want.Context = 0.25, 32
		if c.want.MixtureEnd == "" {
			c.want.MixtureEnd = "restart"
		}
		assert.Equal(t, c.want, got)
		assert.NoError(t, got.Validate())
	}
}

func TestEpochsGiveTheSteps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x", 10*16+1)), 0o666))
	sets := []string{"data.text=" + file, "data.validation=0", "data.epochs=3", "train.batch=2", "train.accumulate=2", "model.context=16", "model.width=8", "model.layers=1"}
	cfg, err := runfile.ReadAll(nil, nil, sets)
	require.NoError(t, err)
	run, release, err := trainConfig(t.Context(), cfg)
	require.NoError(t, err)
	release()
	assert.EqualValues(t, 8, run.Steps, "30 windows, 4 a step")
	assert.EqualValues(t, 8, run.State.Optimizer.Options.Schedule.Steps, "and the rate ends with them")
	assert.Equal(t, runfile.Origin("data.epochs"), cfg.Origin("train.steps"))
	cfg, err = runfile.ReadAll(nil, nil, append(sets, "train.steps=9"))
	require.NoError(t, err)
	_, _, err = trainConfig(t.Context(), cfg)
	assert.ErrorContains(t, err, "train.steps (--set): found 9, wanted nothing beside data.epochs (--set): 3 epochs are 8 steps")
}
