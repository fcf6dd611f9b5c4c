package runfile

import (
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
	}
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
