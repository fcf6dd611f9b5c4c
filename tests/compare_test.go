package tests

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/run/train"
)

// comparison is what the tests read of compare.json.
type comparison struct {
	Baseline string
	Seeds    []uint64
	Entrants []struct {
		Label        string
		LearningRate float64 `json:"learning_rate"`
		Runs         []struct {
			Seed     uint64
			Ended    string
			Steps    []int64
			Seconds  []float64
			EvalLoss []train.Number `json:"eval_loss"`
		}
		Summary struct {
			Done        int
			FinalLoss   train.Number `json:"final_loss"`
			ReachedStep int64        `json:"reached_step"`
		}
	}
}

func (p *place) comparison(t *testing.T, name string) comparison {
	t.Helper()
	var c comparison
	require.NoError(t, json.Unmarshal([]byte(read(t, p.path(name))), &c))
	return c
}

// A comparison makes the runs that train makes, each once: what was interrupted goes on, what is finished stays.
func TestCompare(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestCompareDivergence")
	p := newPlace(t)
	require.NoError(t, os.RemoveAll(p.path("run.yaml")))
	p.write(t, "tiny.yaml", "model: {layers: 1, heads: 2, width: 16, context: 16}\ndata: {text: text.txt, validation: 0.1}\ntrain: {batch: 2, eval_tokens: 160, save_every: 4}\n")
	args := []string{"compare", "tiny.yaml", "--optimizers", "adamw,sgd", "--seeds", "2", "--steps", "12", "--eval-every", "3", "--rate", "adamw=0.01", "--out", "out", "--progress", "none"}
	r := ok(t, p.command(args...))
	assert.Regexp(t, `(?m)^adamw +12 +0\.01 +\d\.\d{4} ± \d\.\d{4} +12 +1\.00`, r.out)
	assert.Regexp(t, `(?m)^sgd +12 +0\.1 +\d\.\d{4} ± \d\.\d{4}`, r.out)
	c := p.comparison(t, "out/compare.json")
	assert.Equal(t, "adamw", c.Baseline)
	assert.Equal(t, []uint64{42, 43}, c.Seeds)
	require.Len(t, c.Entrants, 2)
	for _, e := range c.Entrants {
		assert.Equal(t, 2, e.Summary.Done)
		require.Len(t, e.Runs, 2)
		for _, run := range e.Runs {
			assert.Equal(t, "done", run.Ended)
			assert.Equal(t, []int64{3, 6, 9, 12}, run.Steps)
			assert.True(t, slices.IsSorted(run.Seconds))
			assert.Less(t, run.EvalLoss[3], run.EvalLoss[0])
		}
		assert.InDelta(t, float64(e.Runs[0].EvalLoss[3]+e.Runs[1].EvalLoss[3])/2, float64(e.Summary.FinalLoss), 1e-12)
		assert.NotEqual(t, e.Runs[0].EvalLoss[0], e.Runs[1].EvalLoss[0], "seeds differ")
	}
	assert.Contains(t, read(t, p.path("out/compare.svg")), ">adamw</text>")
	assert.Contains(t, read(t, p.path("out/compare.md")), "| sgd | sgd | 0.1 | built-in | 0.01 | - |")

	// The loss of step 1 comes before any update: one seed begins with the same weights and the same batch for all.
	first := func(run string) any { return metricsOf(t, p.path("out", run))[0]["loss"] }
	assert.Equal(t, first("adamw-42"), first("sgd-42"))
	assert.NotEqual(t, first("adamw-42"), first("adamw-43"))

	// The same run by train has the same losses.
	ok(t, p.command("train", "tiny.yaml", "--run-dir", "alone", "--progress", "none", "--set", "train.steps=12", "--set", "train.eval_every=3",
		"--set", "optimizer.learning_rate=0.01", "--set", "optimizer.schedule.learning_rate_end=0.001", "--set", "train.seed=43"))
	alone := metricsOf(t, p.path("alone"))
	assert.Equal(t, alone[len(alone)-1]["eval_loss"], float64(c.Entrants[0].Runs[1].EvalLoss[3]))

	// One run is lost as a whole, another is thrown back to a checkpoint: the same command makes the rest, and comes to the same losses.
	before := read(t, p.path("out/adamw-42/metrics.jsonl"))
	require.NoError(t, os.RemoveAll(p.path("out/sgd-43")))
	require.NoError(t, os.RemoveAll(p.path("out/adamw-43/checkpoints/step-00000012")))
	r = ok(t, p.command(args...))
	assert.Contains(t, r.err, "resumed from")
	assert.Equal(t, before, read(t, p.path("out/adamw-42/metrics.jsonl")), "a finished run is not repeated: its times are the same")
	again := p.comparison(t, "out/compare.json")
	for i, e := range again.Entrants {
		for k, run := range e.Runs {
			assert.Equal(t, c.Entrants[i].Runs[k].EvalLoss, run.EvalLoss)
		}
	}

	// Other settings are another comparison.
	refused(t, p.command(append(args, "--set", "train.batch=3")...), 2, "train.batch: found 2, wanted 3")
	refused(t, p.command(append(args, "--set", "optimizer.learning_rate=3")...).withoutAdapter(), 2, "is of one optimizer")
}

// A run that diverges is a result; the others are made.
func TestCompareDivergence(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(t, "tiny.yaml", "model: {layers: 1, heads: 2, width: 16, context: 16}\ndata: {text: text.txt, validation: 0.1}\noptimizer: {clip_grad: null}\ntrain: {batch: 2, eval_tokens: 160}\n")
	r := ok(t, p.command("compare", "tiny.yaml", "--optimizers", "sgd,adamw", "--seeds", "1", "--steps", "12", "--eval-every", "3", "--rate", "sgd=1e6", "--out", "out", "--progress", "none"))
	assert.Contains(t, r.out, "1 of 1 diverged")
	c := p.comparison(t, "out/compare.json")
	assert.Equal(t, "adamw", c.Baseline)
	assert.Contains(t, c.Entrants[0].Runs[0].Ended, "diverged at step")
	assert.Equal(t, "done", c.Entrants[1].Runs[0].Ended)
	assert.False(t, math.IsNaN(float64(c.Entrants[1].Summary.FinalLoss)))
}
