package tests

import (
	"fmt"
	"strings"
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

// eval of a run that compares completions has the loss and the figures of the run's own last evaluation, with a reference or without, of adapters and of a model
// that is trained whole; of a text it has the loss of that; where the reference is not known it says so.
func TestEvalOfPreferences(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "state.TestEvaluationLooksAtItsRows")
	p := newPlace(t)
	p.runDir(t, "first")
	var pairs, labelled strings.Builder
	for i := range 60 {
		fmt.Fprintf(&pairs, `{"prompt": "%d + 1 =", "chosen": " %d", "rejected": " many"}`+"\n", i, i+1)
		fmt.Fprintf(&labelled, `{"prompt": "%d + 1 =", "completion": " %d", "label": %t}`+"\n", i, i+1+i%2, i%2 == 0)
	}
	p.write(t, "pairs.jsonl", pairs.String())
	p.write(t, "labelled.jsonl", labelled.String())
	short := []string{"--set", "train.steps=4", "--set", "optimizer.schedule.warmup_steps=0", "--set", "train.eval_every=4", "--set", "train.eval_tokens=0", "--set", "train.sample_tokens=0", "--set", "model.context=32", "--set", "data.validation=0.3"}
	ok(t, p.train("first", append(short, "--set", "data.text=text.txt")...))
	for name, of := range map[string]struct {
		rows, loss string
		more       []string
		told       string
	}{
		"dpo":       {"pairs", "sigmoid", []string{"lora.rank=2"}, `^loss \d\.\d+, margin -?\d\.\d+, accuracy \d\.\d+, rewards_chosen`},
		"whole":     {"pairs", "sigmoid", nil, `margin -?\d\.\d+, accuracy`},
		"simpo":     {"pairs", "simpo", nil, `margin -?\d+\.\d+, accuracy`},
		"packed":    {"pairs", "orpo", []string{"lora.rank=2", "preference.packing=true"}, `margin -?\d+\.\d+, accuracy`},
		"kto":       {"labelled", "kto", []string{"lora.rank=2"}, `^loss \d\.\d+, margin -?\d\.\d+, good \d\.\d+`},
		"bco":       {"labelled", "bco", []string{"lora.rank=2"}, `margin`},
		"kto whole": {"labelled", "kto", nil, ""},
	} {
		dir := strings.ReplaceAll(name, " ", "-")
		p.runDir(t, dir)
		sets := append(short, "--set", "model.from=first", "--set", "data.text=[]", "--set", "data.jsonl="+of.rows+".jsonl", "--set", "preference.loss="+of.loss)
		for _, s := range of.more {
			sets = append(sets, "--set", s)
		}
		ok(t, p.train(dir, sets...))
		all := metricsOf(t, p.path(dir))
		last := all[len(all)-1]
		if of.told == "" {
			refused(t, p.command("eval", dir), 2, "kto of a model that is trained whole, whose reference is in no checkpoint")
			continue
		}
		found := objects(t, ok(t, p.command("eval", dir, "--json")).out)[0]
		off := 1e-5
		if name == "packed" {
			off = 1e-3 // the mean over tokens that orpo adds is one of each batch
		}
		assert.InDelta(t, last["eval_loss"], found["eval_loss"], off, name)
		for figure, v := range last["eval_figures"].(map[string]any) {
			assert.InDelta(t, v, found[figure], 10*off, "%s: %s", name, figure)
		}
		assert.Regexp(t, of.told, ok(t, p.command("eval", dir)).out)
		text := objects(t, ok(t, p.command("eval", dir, "--text", "text.txt", "--json")).out)[0]
		assert.Contains(t, text, "perplexity")
		other := p.command("eval", dir, "--jsonl", of.rows+".jsonl", "--json")
		if name == "whole" {
			refused(t, other, 2, "found --jsonl and a model that is trained whole")
			continue
		}
		assert.NotEqual(t, found["eval_loss"], objects(t, ok(t, other).out)[0]["eval_loss"], name)
	}
}
