package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/optim"
	"gputrain/run/runfile"
)

// files writes run files into a new folder and returns the path of each.
func files(t *testing.T, texts map[string]string) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

func TestEntrantsHaveTheirOwnSettings(t *testing.T) {
	path := files(t, map[string]string{
		"run.yaml": "optimizer: {name: adamw, learning_rate: 0.002, b1: 0.8, schedule: {learning_rate_end: 0.001}, weight_decay: 0.2}\ntrain: {steps: 100}\n",
		"sgd.yaml": "optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9}\n",
		"own.yaml": "optimizer: {learning_rate: 0.5, schedule: {learning_rate_end: 0}, clip_grad: null}\n",
	})
	c := &compareCmd{
		runFlags: runFlags{Files: []string{path("run.yaml")}}, Seeds: 1, Steps: 60,
		Optimizers: []string{"adamw", "slow=" + path("sgd.yaml"), "sgd=" + path("own.yaml"), "fast=" + path("sgd.yaml")}, Rate: []string{"fast=0.4"},
	}
	all, _, configs, err := c.entrants()
	require.NoError(t, err)
	require.Len(t, configs, 4)
	for i, want := range []struct {
		label, name, from string
		rate, end         float64
		parameters        map[string]any
		clipped           bool
	}{
		{"adamw", "adamw", "run.yaml:1", 0.002, 0.001, map[string]any{"b1": 0.8}, true},
		{"slow", "sgd", "sgd.yaml:1", 0.05, 0.025, map[string]any{"momentum": 0.9}, true},
		{"sgd", "sgd", "own.yaml:1", 0.5, 0, nil, false},
		{"fast", "sgd", "--rate", 0.4, 0.2, map[string]any{"momentum": 0.9}, true},
	} {
		e := all[i].describe(configs[i])
		assert.Equal(t, want.label, e.Label)
		assert.Equal(t, want.name, e.Optimizer)
		assert.InDelta(t, want.rate, e.LearningRate, 0)
		assert.InDelta(t, want.end, e.RateEnd, 1e-15, "the same part of the peak for all, unless a file says otherwise")
		assert.Equal(t, want.from, filepath.Base(e.RateFrom))
		assert.Equal(t, want.parameters, e.Parameters)
		assert.Equal(t, want.clipped, configs[i].Optimizer.ClipGrad != nil)
		if _, told := e.Options["clip_grad"]; want.clipped {
			assert.Empty(t, e.Options)
		} else {
			assert.True(t, told, "what no column has is told of, null too")
		}
		assert.InDelta(t, 0.2, configs[i].Optimizer.WeightDecay, 0)
		assert.EqualValues(t, 60, configs[i].Train.Steps)
		assert.EqualValues(t, 3, configs[i].Train.EvalEvery, "a twentieth")
		assert.Zero(t, configs[i].Train.Sample.Tokens)
	}

	// Without a file that says it, each has the built-in rate, and ends at a tenth of it as the built-in run.
	_, _, configs, err = (&compareCmd{Seeds: 1, Optimizers: []string{"adamw", "sgd"}}).entrants()
	require.NoError(t, err)
	for i, name := range []string{"adamw", "sgd"} {
		assert.InDelta(t, rateOf(t, name), configs[i].Optimizer.LearningRate, 0)
		assert.InEpsilon(t, rateOf(t, name)/10, configs[i].Optimizer.RateEnd(), 1e-6)
	}
}

func TestEveryOptimizerHasADefaultRate(t *testing.T) {
	for _, name := range optim.Names() {
		assert.Positive(t, rateOf(t, name), name)
	}
}

// rateOf is the rate in an optimizer's row.
func rateOf(t *testing.T, name string) float64 {
	t.Helper()
	o, err := optim.Find(name)
	require.NoError(t, err)
	return o.Rate
}

func TestContradictionsAreRefused(t *testing.T) {
	path := files(t, map[string]string{
		"run.yaml":   "train: {steps: 100, eval_every: 9}\n",
		"logs.yaml":  "train: {log_every: 5}\n",
		"blind.yaml": "data: {validation: 0}\n",
		"wide.yaml":  "optimizer: {name: sgd}\nmodel: {width: 64}\n",
		"typo.yaml":  "optimizer: {name: sgd, momentun: 0.9}\n",
	})
	for want, c := range map[string]compareCmd{
		`"adamv", wanted one of`: {Optimizers: []string{"adamv"}},
		"sgd stands twice":       {Optimizers: []string{"sgd", "sgd"}},
		`found the name "../x"`:  {Optimizers: []string{"../x"}},
		"found no file":          {Optimizers: []string{"sgd="}},
		"found \"1.5\" behind":   {Optimizers: []string{"sgd@1.5"}},
		"sgd-0.5 stands twice":   {Optimizers: []string{"sgd@0.5", "sgd@0.5"}},
		"no such file":           {Optimizers: []string{"sgd=absent.yaml"}},
		`did you mean "adamw"?`:  {Optimizers: []string{"adamw"}, Rate: []string{"adamv=1"}},
		"a rate of more than 0":  {Optimizers: []string{"adamw"}, Rate: []string{"adamw=0"}},
		"--rate: adamw stands":   {Optimizers: []string{"adamw"}, Rate: []string{"adamw=1", "adamw=2"}},
		"1 seed or more":         {Optimizers: []string{"adamw"}, Seeds: -1},
		"optimizer.learning_rate (--set): is of one optimizer": {Optimizers: []string{"adamw"}, runFlags: runFlags{Set: []string{"optimizer.learning_rate=1"}}},
		"optimizer.parameters.b1 (--set): is of one optimizer": {Optimizers: []string{"adamw"}, runFlags: runFlags{Set: []string{"optimizer.b1=0.5"}}},
		"optimizer.name (--set): is of one optimizer":          {Optimizers: []string{"adamw"}, runFlags: runFlags{Set: []string{"optimizer.name=sgd"}}},
		"--set says train.steps=7":                             {Optimizers: []string{"adamw"}, Steps: 8, runFlags: runFlags{Set: []string{"train.steps=7"}}},
		"--set says train.eval_every=7":                        {Optimizers: []string{"adamw"}, EvalEvery: 8, runFlags: runFlags{Set: []string{"train.eval_every=7"}}},
		"needs the time of every step":                         {Optimizers: []string{"adamw"}, runFlags: runFlags{Files: []string{path("logs.yaml")}}},
		"a part of the text to compare by":                     {Optimizers: []string{"adamw"}, runFlags: runFlags{Files: []string{path("blind.yaml")}}},
		"train.patience (--set): found 3, wanted 0":            {Optimizers: []string{"adamw"}, runFlags: runFlags{Set: []string{"train.patience=3"}}},
		"model.width: is common to all runs":                   {Optimizers: []string{"adamw", "sgd=" + path("wide.yaml")}},
		"a file of the optimizer alone":                        {Optimizers: []string{"sgd=" + path("run.yaml")}, runFlags: runFlags{Files: []string{path("run.yaml")}}},
		`"momentum"`:                                           {Optimizers: []string{"x=" + path("typo.yaml")}},
	} {
		if c.Seeds == 0 {
			c.Seeds = 1
		}
		_, _, _, err := c.entrants()
		if assert.Error(t, err, want) {
			assert.Contains(t, strings.ReplaceAll(err.Error(), `\"`, `"`), want)
		}
	}
	// What a run file says gives way to a flag; what is said twice alike is no contradiction.
	for _, c := range []compareCmd{
		{Seeds: 1, Optimizers: []string{"adamw"}, Steps: 8, runFlags: runFlags{Files: []string{path("run.yaml")}}},
		{Seeds: 1, Optimizers: []string{"adamw"}, Steps: 8, runFlags: runFlags{Set: []string{"train.steps=8"}}},
	} {
		_, _, configs, err := c.entrants()
		require.NoError(t, err)
		assert.EqualValues(t, 8, configs[0].Train.Steps)
	}
}

func TestEntrantsWithAPartOfTheSteps(t *testing.T) {
	path := files(t, map[string]string{"own.yaml": "optimizer: {name: sgd, learning_rate: 0.5}\n"})
	c := &compareCmd{Seeds: 1, Steps: 50, Optimizers: []string{"sgd", "sgd@0.7", "own@0.01=" + path("own.yaml")}, Rate: []string{"sgd-0.7=0.4"}}
	all, common, configs, err := c.entrants()
	require.NoError(t, err)
	for i, want := range []struct {
		label string
		steps int
		rate  float64
	}{{"sgd", 50, rateOf(t, "sgd")}, {"sgd-0.7", 35, 0.4}, {"own-0.01", 1, 0.5}} {
		assert.Equal(t, want.label, all[i].label)
		assert.EqualValues(t, want.steps, configs[i].Train.Steps)
		assert.Equal(t, configs[0].Train.EvalEvery, configs[i].Train.EvalEvery)
		assert.InDelta(t, want.rate, configs[i].Optimizer.LearningRate, 0)
		assert.Equal(t, "sgd", configs[i].Optimizer.Name)
		assert.EqualValues(t, want.steps, all[i].describe(configs[i]).Steps)
	}
	result, err := c.comparison(t.Context(), all[1:], common, configs[1:])
	require.NoError(t, err)
	assert.EqualValues(t, 50, result.Steps, "the comparison's, whatever its first entrant has")
}

// The run files of the documentation are run files.
func TestDocumentedRunFiles(t *testing.T) {
	paths, err := filepath.Glob("../../docs/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		cfg, err := runfile.ReadAll([]string{path}, nil, nil)
		require.NoError(t, err)
		c, err := cfg.OptimizerConfig()
		require.NoError(t, err)
		assert.Equal(t, "quad", c.Name)
		assert.Contains(t, string(c.Parameters), "anneal")
	}
}
