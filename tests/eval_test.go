package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/internal/gputest"
)

// A run whose windows are shorter than its model's context is measured in its own windows: with the loss that it has recorded, and on a text that has no
// window of the model's context. The start says which context and rate a model that was read is trained with.
func TestEvalHasTheWindowsOfTheRun(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestEvalAgreesWithTheRun")
	p := newPlace(t)
	p.runDir(t, "first")
	p.runDir(t, "run")
	short := []string{"--set", "train.steps=2", "--set", "optimizer.schedule.warmup_steps=0", "--set", "train.eval_every=2", "--set", "train.eval_tokens=0", "--set", "data.text=text.txt", "--set", "train.sample_tokens=0"}
	ok(t, p.train("first", append(short, "--set", "model.context=1024", "--set", "data.validation=0", "--set", "train.batch=1")...))
	from := append(short, "--set", "model.from=first")
	ok(t, p.train("run", append(from, "--set", "model.context=32")...))
	all := metricsOf(t, p.path("run"))
	last := all[len(all)-1]
	found := objects(t, ok(t, p.command("eval", "run", "--json")).out)[0]
	assert.EqualValues(t, 32, found["window"])
	assert.Equal(t, last["eval_tokens"], found["tokens"])
	assert.InEpsilon(t, last["eval_loss"], found["eval_loss"], 1e-6, "but for the order of its sum")
	wide := objects(t, ok(t, p.command("eval", "run", "--json", "--window", "48")).out)[0]
	assert.EqualValues(t, 48, wide["window"])

	// As many tokens as are asked for, of a model whose windows are longer.
	some := objects(t, ok(t, p.command("eval", "first", "--json", "--text", "text.txt", "--limit", "96")).out)[0]
	assert.EqualValues(t, 96, some["tokens"])
	refused(t, p.command("eval", "first", "--text", "text.txt", "--limit", "96", "--window", "128"), 2, "--limit: found 96 tokens, wanted at least --window, 128")

	r := ok(t, p.command(append([]string{"train", "--progress", "none", "--run-dir", "default", "--set", "train.steps=1", "--set", "train.batch=1"}, from...)...))
	assert.Contains(t, r.err, "gputrain: optimizer.learning_rate 5e-05 (default: 1/30 of adamw's 0.0015, for a model that was read)\n")
	assert.Contains(t, r.err, "gputrain: model.context 128 (default: ")
}
