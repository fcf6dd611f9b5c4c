package setup

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/cache"
	"gputrain/internal/gputest"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/record"
	"gputrain/run/runfile"
	"gputrain/run/train"
)

func TestDataConfig(t *testing.T) {
	end := 300
	for _, c := range []struct {
		sets  []string
		want  texts.Config
		vocab int
	}{
		{
			[]string{"data.text=a"},
			texts.Config{Text: []string{"a"}, Tokens: "bytes", Vocab: 256, Layout: data.Layout{Packing: "first_fit", Long: "split"}},
			256,
		},
		{
			[]string{"data.jsonl=a", "data.eos=300", "data.field=f", "data.prompt_field=p", "data.mask_field=m", "data.packing=greedy", "data.long=keep_end"},
			texts.Config{JSONL: []string{"a"}, Tokens: "bytes", Vocab: 301, Fields: data.Fields{Text: "f", Prompt: "p", Mask: "m"}, Layout: data.Layout{End: &end, Packing: "greedy", Long: "keep_end"}},
			301,
		},
		{
			[]string{"data.mixture=[{text: a, weight: 2}, {jsonl: b, weight: 1, field: f, prompt_field: p, mask_field: m}]", "data.mixture_end=all_exhausted", "data.tokens=u16", "model.vocab=70000"},
			texts.Config{
				Mixture: []texts.Part{
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
		def, begin, err := Definition(cfg, io.Discard)
		require.NoError(t, err)
		assert.Equal(t, c.vocab, def.Vocab())
		got := Data(cfg, begin.Tokens, def, 32)
		c.want.Validation, c.want.Context, c.want.Invalid, c.want.Cache = 0.25, 32, "error", filepath.Join(cache.Dir(), "tokens")
		c.want.Format, c.want.Chats.Options.Now = "auto", time.Date(2024, 7, 26, 0, 0, 0, 0, time.UTC)
		if c.want.MixtureEnd == "" {
			c.want.MixtureEnd = "restart"
		}
		got.Chats.Lacking = nil // there is no template, which only conversations miss
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
	run, release, err := Train(t.Context(), cfg, io.Discard)
	require.NoError(t, err)
	release()
	assert.EqualValues(t, 8, run.Steps, "30 windows, 4 a step")
	assert.EqualValues(t, 8, run.State.Optimizer.Options.Schedule.Steps, "and the rate ends with them")
	i := slices.IndexFunc(run.Settings, func(s record.Setting) bool { return s.Key == "train.steps" })
	assert.Equal(t, "data.epochs", run.Settings[i].Origin)
	cfg, err = runfile.ReadAll(nil, nil, append(sets, "train.steps=9"))
	require.NoError(t, err)
	_, _, err = Train(t.Context(), cfg, io.Discard)
	assert.ErrorContains(t, err, "train.steps (--set): found 9, wanted nothing beside data.epochs (--set): 3 epochs are 8 steps")
}

// A short run has short evaluations, however its steps are said; a run that has begun keeps those that it began with, and the user's are the user's.
func TestEvaluationsSuitTheRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x", 100*16+1)), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.yaml"), []byte("train:\n  eval_tokens: 32768 # default\n"), 0o666))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "checkpoints", "step-00000001"), 0o777))
	for name, c := range map[string]struct {
		sets  []string
		begun bool
		want  int64
		says  string
	}{
		"steps":           {[]string{"train.steps=10"}, false, 10 * 64 / 2, "gputrain: train.eval_tokens 320 (default: "},
		"epochs":          {[]string{"data.epochs=3"}, false, 60 * 64 / 2, "gputrain: train.eval_tokens 1920 (default: "}, // 80 windows, 4 a step
		"a long run":      {[]string{"train.steps=2000"}, false, 2000 * 64 / 2 / 5 / 16 * 16, "gputrain: train.eval_tokens 12800 (default: "},
		"a longer one":    {[]string{"train.steps=2000", "train.eval_every=1000"}, false, 32000, "eval_tokens 32000"},
		"the most":        {[]string{"train.steps=4000", "train.eval_every=2000"}, false, 32768, ""},
		"said":            {[]string{"train.steps=10", "train.eval_tokens=32768"}, false, 32768, ""},
		"begun":           {[]string{"train.steps=10"}, true, 32768, "gputrain: train.eval_tokens 32768 (default: as the run began)"},
		"no evaluation":   {[]string{"train.steps=10", "train.eval_every=0"}, false, 32768, ""},
		"nothing is held": {[]string{"train.steps=10", "data.validation=0"}, false, 32768, ""},
	} {
		cfg, err := runfile.ReadAll(nil, nil, append([]string{"data.text=" + file, "data.validation=0.2", "train.batch=2", "train.accumulate=2", "model.context=16", "model.width=8", "model.layers=1"}, c.sets...))
		require.NoError(t, err)
		var begun Resumed
		if c.begun {
			begun.Earlier, err = Earlier(dir, false)
			require.NoError(t, err)
		}
		var said bytes.Buffer
		run, release, err := Resume(t.Context(), cfg, begun, &said)
		require.NoError(t, err, name)
		release()
		assert.Equal(t, c.want, run.EvalTokens, name)
		if assert.Contains(t, said.String(), c.says, name); c.says == "" {
			assert.NotContains(t, said.String(), "eval_tokens", name)
		}
	}
}

// A model with fewer rows than the text has tokens is a mistake in the run file.
func TestRowsForTheText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x", 10*16+1)), 0o666))
	cfg, err := runfile.ReadAll(nil, nil, []string{"data.text=" + file, "data.validation=0", "model.vocab=64", "model.context=16", "model.width=8", "model.layers=1"})
	require.NoError(t, err)
	_, _, err = Train(t.Context(), cfg, io.Discard)
	var usage *UsageError
	require.ErrorAs(t, err, &usage)
	assert.ErrorContains(t, err, "found bytes, a vocabulary of 256, wanted at most 64, the rows of the model")
}

// A run file is trained without the command, on one device and in stages, to the same bits.
func TestARunFileIsTrained(t *testing.T) {
	dev := gputest.Device(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "run.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
model:     {layers: 2, heads: 1, width: 8, context: 16}
data:      {text: [`+filepath.Join(folder, "text")+`], validation: 0.2}
train:     {steps: 2, sample_tokens: 4}
`), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "text"), []byte(strings.Repeat("a tiny text, ", 40)), 0o666))
	trained := func(sets ...string) []byte {
		cfg, err := runfile.ReadAll([]string{path}, nil, sets)
		require.NoError(t, err)
		run, release, err := Train(t.Context(), cfg, io.Discard)
		require.NoError(t, err)
		defer release()
		run.Dir, run.Output = t.TempDir(), io.Discard
		var result train.Result
		if stages := cfg.Pipeline.Stages; stages == 1 {
			result, err = train.Run(t.Context(), dev, run)
		} else {
			devices := slices.Repeat([]*gpu.Device{dev}, stages)
			units, of := Units(cfg, run.State)
			require.NoError(t, of)
			cut, _, of := Cut(t.Context(), cfg, run.State, units, devices)
			require.NoError(t, of)
			result, err = train.RunOn(t.Context(), train.Pipelined(devices, Pipeline(cfg, cut)), run)
		}
		require.NoError(t, err)
		assert.EqualValues(t, 2, result.Step)
		weights, err := os.ReadFile(filepath.Join(result.Checkpoint, "model.safetensors"))
		require.NoError(t, err)
		return weights
	}
	whole := trained()
	assert.True(t, bytes.Equal(whole, trained("pipeline.stages=2")), "stages change the weights")
	assert.False(t, bytes.Equal(whole, trained("train.seed=7")), "the seed does not")
}

// A directory of config.json alone can be planned, and is not trained.
func TestPlanOfAConfigAlone(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.ReadFile("../../model/testdata/models/gemma3_small/config.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o666))
	cfg, err := runfile.ReadAll(nil, nil, []string{"model.from=" + dir})
	require.NoError(t, err)
	var said bytes.Buffer
	p, err := Plan(cfg, &said)
	require.NoError(t, err)
	assert.Equal(t, "gemma3_text", p.State.Definition.Kind())
	assert.Contains(t, said.String(), "found no weights, wanted model.safetensors")
	assert.Contains(t, said.String(), "this is by its config.json alone")
	_, _, err = State(cfg, &said)
	var wrong *ModelError
	require.ErrorAs(t, err, &wrong)
}
