package runfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readAll(t *testing.T, sets ...string) *Config {
	t.Helper()
	c, err := ReadAll(nil, nil, sets)
	require.NoError(t, err)
	return c
}

// Whoever sets a peak alone has a rate that falls to a tenth of it; of the default run that is the float that its key once had.
func TestRateEndsBelowThePeak(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want float64
	}{
		{nil, 0.00015},
		{[]string{"optimizer.learning_rate=5e-5"}, 5e-6},
		{[]string{"optimizer.learning_rate=0.006", "optimizer.schedule.learning_rate_end_ratio=0.5"}, 0.003},
		{[]string{"optimizer.learning_rate=0.006", "optimizer.schedule.learning_rate_end=0"}, 0},
		{[]string{"optimizer.learning_rate=0.006", "optimizer.schedule.learning_rate_end=0.001", "optimizer.schedule.learning_rate_end_ratio=0.5"}, 0.001},
	} {
		cfg := readAll(t, c.sets...)
		o, err := cfg.OptimizerConfig()
		require.NoError(t, err)
		assert.Equal(t, c.want, *o.Options.Schedule.LearningRateEnd, "%v: to the bit", c.sets)
		s, err := o.Options.Schedule.Build(o.Options.Numerics)
		require.NoError(t, err)
		for step := range cfg.Train.Steps + 1 {
			require.LessOrEqual(t, s(step), cfg.Optimizer.LearningRate, "%v: step %d", c.sets, step)
		}
		assert.NoError(t, cfg.CheckRates())
	}
	rising := []string{"optimizer.learning_rate=5e-5", "optimizer.schedule.learning_rate_end=1.5e-4"}
	assert.EqualError(t, readAll(t, rising...).CheckRates(), "run file: optimizer.schedule.learning_rate_end (--set): found 0.00015, above the peak of 5e-05, optimizer.learning_rate (--set): "+
		"wanted at most that, or null for a share of it, optimizer.schedule.learning_rate_end_ratio")
	assert.NoError(t, readAll(t, append(rising, "optimizer.schedule.type=constant")...).CheckRates(), "a constant rate has no end")
}

// A model that was read is tuned at a part of the optimizer's rate for new models, and explain says why.
func TestRateOfReadModels(t *testing.T) {
	rate := func(sets ...string) (float64, Origin) {
		c := readAll(t, sets...)
		return c.Optimizer.LearningRate, c.Origin("optimizer.learning_rate")
	}
	for _, c := range []struct {
		sets []string
		rate float64
		from Origin
	}{
		{nil, 0.0015, "default"},
		{[]string{"optimizer.name=lion"}, 0.0015, "default"},
		{[]string{"model.from=m"}, 5e-5, "default: 1/30 of adamw's 0.0015, for a model that was read"},
		{[]string{"model.from=m", "optimizer.name=lion"}, 1e-5, "default: 1/30 of lion's 0.0003, for a model that was read"},
		{[]string{"model.from=m", "optimizer.name=sgd"}, 0.0033, "default: 1/30 of sgd's 0.1, for a model that was read"},
		{[]string{"model.from=m", "lora.rank=8"}, 1.5e-4, "default: 1/10 of adamw's 0.0015, for a model with adapters"},
		{[]string{"model.from=m", "lora.rank=8", "preference.loss=sigmoid", "data.jsonl=[p]"}, 1.5e-5, "default: 1/100 of adamw's 0.0015, for preferences of a model with adapters"},
		{[]string{"model.from=m", "preference.loss=orpo", "data.jsonl=[p]", "optimizer.name=lion"}, 1e-6, "default: 1/300 of lion's 0.0003, for preferences of a model that was read"},
		{[]string{"model.from=m", "lora.rank=8", "preference.loss=none"}, 1.5e-4, "default: 1/10 of adamw's 0.0015, for a model with adapters"},
		{[]string{"model.from=m", "optimizer.learning_rate=0.0015"}, 0.0015, "--set"},
	} {
		found, from := rate(c.sets...)
		assert.Equal(t, c.rate, found, "%v", c.sets)
		assert.Equal(t, c.from, from, "%v", c.sets)
	}
	var out strings.Builder
	require.NoError(t, readAll(t, "model.from=m").Explain(&out))
	assert.Regexp(t, `optimizer.learning_rate +=.*# default: 1/30 of adamw's 0.0015`, out.String())
	assert.Regexp(t, `model.context +=.*# default: as for a new model`, out.String())
	assert.Equal(t, []string{`model.from="m"`}, readAll(t, "model.from=m").Apart(nil), "defaults are in no name of a directory")
}

// A run goes on with the defaults that it began with, and with what its user names.
func TestDefaultsOfARunThatBegan(t *testing.T) {
	dir := t.TempDir()
	old := func(origin string) {
		text := "model:\n  from: \"/m\"   # --set\n  context: 128   # default\noptimizer:\n  learning_rate: 0.0015    # default\n" +
			"  schedule:\n    learning_rate_end: 0.00015 # " + origin + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, RecordFile), []byte(text), 0o666))
	}
	old("default")
	c := readAll(t, "model.from=/m")
	require.NoError(t, c.AsBegun(dir, false))
	assert.Equal(t, 0.0015, c.Optimizer.LearningRate)
	assert.Equal(t, 0.00015, c.Optimizer.RateEnd())
	assert.Equal(t, Origin("default"), c.Origin("model.context"), "which is the model's own")
	assert.Equal(t, int64(32768), c.Train.EvalTokens)
	assert.Equal(t, Origin("default: as the run began"), c.Origin("train.eval_tokens"), "however long the run is to be now")

	c = readAll(t, "model.from=/m", "optimizer.learning_rate=5e-5", "model.context=64")
	require.NoError(t, c.AsBegun(dir, false))
	assert.Equal(t, 5e-5, c.Optimizer.LearningRate)
	assert.Equal(t, 64, c.Model.Context)
	assert.Equal(t, 0.00015, c.Optimizer.RateEnd(), "as it trained")
	require.NoError(t, c.CheckRates(), "what began rising goes on so")
	require.NoError(t, c.AsBegun(dir, true))
	assert.ErrorContains(t, c.CheckRates(), "learning_rate_end", "but no new schedule does")

	old("--set")
	c = readAll(t, "model.from=/m")
	require.NoError(t, c.AsBegun(dir, false))
	assert.Equal(t, 0.00015, c.Optimizer.RateEnd())
	assert.Nil(t, c.Optimizer.Schedule.LearningRateEnd, "what was named is to be named again")
}

// No more context than the model of model.from has is in force, or recorded: a default is lowered, a value refused. A run goes on with what it has recorded.
func TestFitContext(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, RecordFile), []byte("model:\n  from: \"/m\"\n  context: 4096 # --set\n"), 0o666))
	for _, c := range []struct {
		sets  []string
		begun bool
		most  int
		want  int // 0: refused
	}{
		{[]string{"model.from=/m"}, false, 64, 64},
		{[]string{"model.from=/m"}, false, 4096, 128},
		{[]string{"model.from=/m", "model.context=64"}, false, 64, 64},
		{[]string{"model.from=/m", "model.context=65"}, false, 64, 0},
		{[]string{"model.from=/m", "model.context=4096"}, true, 64, 4096},
		{[]string{"model.context=4096"}, false, 64, 4096}, // a new model
	} {
		cfg := readAll(t, c.sets...)
		if c.begun {
			require.NoError(t, cfg.AsBegun(dir, true))
		}
		err := cfg.FitContext(c.most)
		if c.want == 0 {
			require.EqualError(t, err, "run file: model.context (--set): found 65, wanted at most 64, the context of /m")
			continue
		}
		require.NoError(t, err, "%v", c)
		assert.Equal(t, c.want, cfg.Model.Context, "%v", c)
	}
}
