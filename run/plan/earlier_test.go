package plan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
	"gputrain/run/runfile"
)

// recorded is the run file that a record says, each value with an origin behind it.
func recorded(t *testing.T, text string) *runfile.Config {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, runfile.RecordFile), []byte(text), 0o666))
	was, err := runfile.OfRun(dir)
	require.NoError(t, err)
	return was
}

func wide(t *testing.T, context int) model.Definition {
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 1, Width: 8, Vocab: 256, Context: context, RopeTheta: 1e4})
	require.NoError(t, err)
	return def
}

// A rate that ends above its peak is refused, unless the run began with it.
func TestRisingRates(t *testing.T) {
	check := func(e *Earlier, sets ...string) error { return (&Plan{Spec: specOf(t, sets...)}).checkRates(e) }
	rising := []string{"optimizer.learning_rate=5e-5", "optimizer.schedule.learning_rate_end=1.5e-4"}
	assert.NoError(t, check(nil))
	assert.EqualError(t, check(nil, rising...), "run file: optimizer.schedule.learning_rate_end (--set): found 0.00015, above the peak of 5e-05, optimizer.learning_rate (--set): "+
		"wanted at most that, or null for a share of it, optimizer.schedule.learning_rate_end_ratio")
	assert.NoError(t, check(nil, append(rising, "optimizer.schedule.type=constant")...), "a constant rate has no end")
	assert.NoError(t, check(&Earlier{}, rising...), "what began rising goes on so")
	assert.Error(t, check(&Earlier{Reschedule: true}, rising...), "but no new schedule does")
}

// A run goes on with the defaults that it began with, and with what its user names.
func TestDefaultsOfARunThatBegan(t *testing.T) {
	began := func(origin string, sets ...string) *runfile.Config {
		spec, err := runfile.ReadAll(nil, nil, append([]string{"model.from=/m"}, sets...))
		require.NoError(t, err)
		p := &Plan{Spec: spec}
		p.layEarlier(&Earlier{Spec: recorded(t, "model:\n  from: \"/m\"   # --set\n  context: 128   # default\noptimizer:\n  learning_rate: 0.0015    # default\n"+
			"  schedule:\n    learning_rate_end: 0.00015 # "+origin+"\n")})
		return p.Spec
	}
	c := began("default")
	assert.Equal(t, 0.0015, c.Optimizer.LearningRate)
	assert.Equal(t, 0.00015, c.Optimizer.RateEnd())
	assert.True(t, c.IsDefault("model.context"), "which is the model's own")
	assert.Equal(t, int64(32768), c.Train.EvalTokens)
	assert.Equal(t, runfile.Origin("default: as the run began"), c.Origin("train.eval_tokens"), "however long the run is to be now")

	c = began("default", "optimizer.learning_rate=5e-5", "model.context=64")
	assert.Equal(t, 5e-5, c.Optimizer.LearningRate)
	assert.Equal(t, 64, c.Model.Context)
	assert.Equal(t, 0.00015, c.Optimizer.RateEnd(), "as it trained")

	c = began("--set")
	assert.Equal(t, 0.00015, c.Optimizer.RateEnd())
	assert.Nil(t, c.Optimizer.Schedule.LearningRateEnd, "what was named is to be named again")
}

// No more context than the model of model.from has is in force, or recorded: a default is lowered, a value refused. A run goes on with what it has recorded.
func TestFitContext(t *testing.T) {
	for _, c := range []struct {
		sets    []string
		earlier *Earlier
		most    int
		want    int // 0: refused
	}{
		{[]string{"model.from=/m"}, nil, 64, 64},
		{[]string{"model.from=/m"}, nil, 4096, 128},
		{[]string{"model.from=/m", "model.context=64"}, nil, 64, 64},
		{[]string{"model.from=/m", "model.context=65"}, nil, 64, 0},
		{[]string{"model.from=/m", "model.context=4096"}, &Earlier{}, 64, 4096},
		{[]string{"model.context=4096"}, nil, 64, 4096}, // a new model
	} {
		spec, err := runfile.ReadAll(nil, nil, c.sets)
		require.NoError(t, err)
		err = FitContext(spec, wide(t, c.most), c.earlier)
		if c.want == 0 {
			require.EqualError(t, err, "run file: model.context (--set): found 65, wanted at most 64, the context of /m")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, spec.Model.Context, c.sets)
	}
}

// Resolve does all of that for a run that goes on, and none of it for one that begins.
func TestRunThatGoesOn(t *testing.T) {
	w := World{Model: &Model{Dir: "/m", Definition: wide(t, 64)}, Tokens: Tokens{Kind: ByteTokens}}
	spec, err := runfile.ReadAll(nil, nil, []string{"model.from=/m", "model.context=4096", "optimizer.schedule.learning_rate_end=0.01"})
	require.NoError(t, err)
	_, err = Resolve(spec, w)
	require.ErrorContains(t, err, "learning_rate_end")
	flat, err := spec.With("optimizer.schedule.learning_rate_end=0")
	require.NoError(t, err)
	_, err = Resolve(flat, w)
	require.ErrorContains(t, err, "model.context (--set): found 4096, wanted at most 64")
	w.Earlier = &Earlier{Spec: recorded(t, "model:\n  from: \"/m\" # --set\n  context: 4096 # --set\noptimizer:\n  learning_rate: 0.002 # default\n")}
	p, err := Resolve(spec, w)
	require.NoError(t, err)
	assert.Equal(t, 4096, p.Spec.Model.Context, "as it was recorded")
	assert.Equal(t, 64, p.State.Sequence)
	assert.Equal(t, 0.002, p.Spec.Optimizer.LearningRate)
	assert.Equal(t, int64(32768), p.Spec.Train.EvalTokens)
	w.Earlier.Reschedule = true
	_, err = Resolve(spec, w)
	assert.ErrorContains(t, err, "learning_rate_end")
}
