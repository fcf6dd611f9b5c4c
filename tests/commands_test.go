package tests

import (
	"encoding/json"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/run/fit"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state/checkpoint"
)

func TestDevices(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	adapters := gputest.Adapters(t)
	var found []map[string]any
	r := ok(t, p.command("devices", "--json"))
	require.NoError(t, json.Unmarshal([]byte(r.out), &found))
	require.GreaterOrEqual(t, len(found), len(adapters))
	table := ok(t, p.command("devices")).out
	assert.Contains(t, table, "MATRIX UNITS")
	defaults := 0
	for i, d := range found {
		assert.EqualValues(t, i, d["index"])
		for _, key := range []string{"name", "backend", "type", "driver"} {
			assert.NotEmpty(t, d[key], key)
		}
		for _, key := range []string{"max_buffer_bytes", "max_binding_bytes", "max_storage_buffers", "max_invocations_per_workgroup"} {
			assert.Positive(t, d[key], key)
		}
		if d["default"] == true {
			defaults++
		}
		assert.Contains(t, table, d["name"])
		assert.IsType(t, []any{}, d["matrix_shapes"])
	}
	assert.Equal(t, 1, defaults)
	a := adapters[0]
	assert.Equal(t, a.Name, found[a.Index]["name"])
	assert.Equal(t, true, found[a.Index]["default"], "GPUTRAIN_ADAPTER says so")
}

// What the template writes is a run file, the default one.
func TestConfigTemplateTrains(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	template := ok(t, p.command("config", "template").withoutAdapter())
	p.write(t, "template.yaml", template.out)
	value := regexp.MustCompile(`(?m) +#[^#]*$`)
	plain := ok(t, p.command("config", "explain").withoutAdapter())
	written := ok(t, p.command("config", "explain", "template.yaml").withoutAdapter())
	assert.Equal(t, value.ReplaceAllString(plain.out, ""), value.ReplaceAllString(written.out, ""))
	assert.NotContains(t, written.out, "# default")

	r := ok(t, p.command("train", "template.yaml", "--set", "train.steps=2", "--set", "data.text=text.txt", "--set", "train.eval_tokens=128", "--set", "train.sample_tokens=2"))
	assert.Contains(t, r.err, "done at step 2")
	// The same command finds its directory again.
	r = ok(t, p.command("train", "template.yaml", "--set", "train.steps=2", "--set", "data.text=text.txt", "--set", "train.eval_tokens=128", "--set", "train.sample_tokens=2"))
	assert.Contains(t, r.err, "all 2 steps are made")
}

func TestConfigExplain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(t, "more.yaml", "train:\n  batch: 3\noptimizer: {b1: 0.8}\n")
	explain := p.command("config", "explain", "run.yaml", "more.yaml", "--set", "train.steps=9").withoutAdapter().with(func(c *command) {
		c.env = []string{"GPUTRAIN_TRAIN_SEED=5"}
	})
	out := ok(t, explain).out
	for _, line := range []string{
		`train\.steps += 9 +# --set`,
		`train\.seed += 5 +# GPUTRAIN_TRAIN_SEED`,
		`train\.batch += 3 +# more\.yaml:2`,
		`optimizer\.parameters\.b1 += 0\.8 +# more\.yaml:3`,
		`model\.width += 32 +# run\.yaml:2`,
		`optimizer\.learning_rate += 0\.01 +# run\.yaml:4`,
		`train\.log_every += 1 +# default`,
	} {
		assert.Regexp(t, `(?m)^`+line+`$`, out)
	}
}

func TestOptimizers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var all []struct {
		Name       string
		Parameters []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(ok(t, p.command("optimizers", "--json").withoutAdapter()).out), &all))
	require.NotEmpty(t, all)
	table := ok(t, p.command("optimizers").withoutAdapter()).out
	for _, o := range all {
		assert.Contains(t, table, o.Name)
		// What it prints for one is a piece of a run file.
		one := ok(t, p.command("optimizers", o.Name).withoutAdapter()).out
		p.write(t, o.Name+".yaml", one)
		explained := ok(t, p.command("config", "explain", o.Name+".yaml").withoutAdapter()).out
		for _, parameter := range o.Parameters {
			assert.Regexp(t, `(?m)^optimizer\.parameters\.`+parameter["name"].(string)+` .*# `+o.Name+`\.yaml:\d+$`, explained)
		}
	}
	assert.Contains(t, table, "adamw")
	assert.Contains(t, table, "sgd")
	assert.NotContains(t, table, "0x", "a parameter that may be null is shown by its value")
}

// A run directory holds what docs/formats.md says, and its run.yaml is a run file that makes the same run.
func TestRunDirectory(t *testing.T) {
	t.Parallel()
	p, _ := undisturbedRun(t)
	run := p.path("whole")
	for _, name := range []string{
		"run.yaml", "metrics.jsonl", "samples.jsonl", "report.md", "loss.svg", "gradient.svg", "speed.svg", "use.svg", "checkpoints/step-00000080/model.safetensors", "checkpoints/step-00000080/config.json",
		"checkpoints/step-00000080/optimizer.safetensors", "checkpoints/step-00000080/state.json", "checkpoints/step-00000080/manifest.json",
	} {
		assert.NotEmpty(t, read(t, p.path("whole", name)), name)
	}
	made, evaluated := 0, 0
	for _, m := range metricsOf(t, run) {
		if _, ok := m["eval_loss"]; ok {
			evaluated++
			assert.Contains(t, m, "step")
			continue
		}
		made++
		assert.EqualValues(t, made, m["step"])
		for _, key := range []string{
			"loss", "learning_rate", "grad_norm", "tokens", "epoch", "tokens_per_second", "padded_tokens_per_second", "step_ms", "data_wait_ms", "device_ms",
			"mfu", "device_bytes", "device_peak_bytes",
		} {
			v, ok := m[key].(float64)
			assert.True(t, ok && v > 0, "%s: %v", key, m[key])
		}
	}
	assert.Equal(t, steps, made)
	assert.Equal(t, steps/8, evaluated)
	assert.Len(t, objects(t, read(t, p.path("whole", "samples.jsonl"))), steps/16)
	var config map[string]any
	require.NoError(t, json.Unmarshal([]byte(read(t, p.path("whole", "checkpoints", "step-00000080", "config.json"))), &config))
	assert.Equal(t, "gpt2", config["model_type"])
	assert.EqualValues(t, 32, config["n_embd"])

	value := regexp.MustCompile(`(?m) +#[^#]*$`)
	was := ok(t, p.command("config", "explain", "run.yaml", "--set", "train.recompute=none", "--set", "data.tokens=bytes").withoutAdapter()) // recorded is what auto came to
	is := ok(t, p.command("config", "explain", "whole/run.yaml").withoutAdapter())
	assert.Equal(t, value.ReplaceAllString(was.out, ""), value.ReplaceAllString(is.out, ""))
	again := p.runDir(t, "from its own run.yaml")
	// How far it reads ahead and how often it saves changes no bit.
	ok(t, p.command("train", "whole/run.yaml", "--run-dir", again, "--progress", "none", "--set", "data.prefetch=1", "--set", "train.save_every=50"))
	requireSame(t, undisturbed.outcome, outcomeOf(t, again))
}

// eval reads the same loss from the checkpoint as the run has read from its state.
func TestEvalAgreesWithTheRun(t *testing.T) {
	t.Parallel()
	p, _ := undisturbedRun(t)
	all := metricsOf(t, p.path("whole"))
	last := all[len(all)-1]
	require.Contains(t, last, "eval_loss")
	eval := func(args ...string) map[string]any {
		return objects(t, ok(t, p.command(append([]string{"eval", "whole", "--json"}, args...)...)).out)[0]
	}
	// The sums are made in the same order, batch by batch: the same bits.
	cfg := runfile.New()
	require.NoError(t, cfg.Parse("run.yaml", []byte(read(t, p.path("whole", "run.yaml")))))
	planned, err := setup.Plan(cfg, io.Discard)
	require.NoError(t, err)
	c := planned.State
	rows := fit.EvaluationRows(t.Context(), c, cfg.Train.EvalTokens)
	require.Greater(t, rows, c.Batch)
	same := eval("--batch", strconv.Itoa(rows), "--limit", "200")
	assert.Equal(t, last["eval_loss"], same["eval_loss"])
	assert.Equal(t, last["eval_tokens"], same["tokens"])
	assert.InEpsilon(t, math.Exp(same["eval_loss"].(float64)), same["perplexity"], 1e-12)
	// In other batches they are rounded otherwise.
	assert.InEpsilon(t, last["eval_loss"], eval("--batch", strconv.Itoa(rows+1), "--limit", "200")["eval_loss"], 1e-5)
	// Other tokens have another loss.
	whole := eval()
	assert.Greater(t, whole["tokens"], last["eval_tokens"])
	assert.NotEqual(t, last["eval_loss"], whole["eval_loss"])
	text := eval("--text", "text.txt")
	assert.Greater(t, text["tokens"], whole["tokens"])
	assert.Less(t, text["eval_loss"], 2.5)
	// A byte is a token, but for the first, which nothing predicts.
	assert.Equal(t, text["tokens"], text["bytes"])
	assert.EqualValues(t, len(read(t, p.path("text.txt")))-1, text["bytes"])
	assert.InEpsilon(t, text["eval_loss"].(float64)/math.Ln2, text["bits_per_byte"], 1e-12)
	assert.InEpsilon(t, text["perplexity"], text["byte_perplexity"], 1e-12)
	p.write(t, "short.txt", read(t, p.path("text.txt"))[:300])
	strided := eval("--text", "short.txt", "--window", "8", "--stride", "3")
	assert.EqualValues(t, 299, strided["tokens"])
	assert.Equal(t, []any{8., 3.}, []any{strided["window"], strided["stride"]})
	side := eval("--text", "short.txt", "--window", "8")
	assert.EqualValues(t, 299, side["tokens"])
	assert.Less(t, strided["eval_loss"], side["eval_loss"], "each has five tokens before it, not one")
	alone := eval("--text", "short.txt", "--window", "8", "--stride", "8")
	assert.EqualValues(t, 299-37, alone["tokens"], "nothing predicts the first tokens of 37 windows")
	assert.NotContains(t, alone, "bytes")
	assert.NotContains(t, eval("--text", "short.txt", "--window", "8", "--limit", "24"), "bytes")
	for _, wrong := range [][]string{{"--text", "short.txt", "--window", "8", "--stride", "9"}, {"--stride", "3"}, {"--window", "99999"}, {"--stride", "-1"}} {
		assert.Equal(t, 2, p.command(append([]string{"eval", "whole"}, wrong...)...).run(t).code, "%v", wrong)
	}
	assert.Equal(t, 2, p.command("eval", "whole", "--text", "short.txt", "--invalid", "drop").run(t).code)
	assert.Contains(t, ok(t, p.command("eval", "whole")).out, "nats a token")
}

func TestSampleIsAFunctionOfItsSeed(t *testing.T) {
	t.Parallel()
	p, _ := undisturbedRun(t)
	sample := func(args ...string) string {
		return ok(t, p.command(append([]string{"sample", "whole", "--prompt", "line ", "--tokens", "40"}, args...)...)).out
	}
	first := sample()
	assert.Equal(t, first, sample())
	assert.NotEqual(t, first, sample("--seed", "43"))
	assert.Len(t, first, len("line ")+40+1)
	assert.True(t, strings.HasPrefix(first, "line "))
	greedy := sample("--temperature", "0")
	assert.Equal(t, greedy, sample("--temperature", "0", "--seed", "43"))
	// A checkpoint and its run are the same model.
	at := p.path("whole", "checkpoints", checkpoint.DirName(steps))
	assert.Equal(t, first, ok(t, p.command("sample", at, "--prompt", "line ", "--tokens", "40")).out)
	several := sample("-n", "3")
	texts := strings.SplitAfter(several, "--- ")
	require.Len(t, texts, 4, several)
	for i, text := range texts[1:] {
		assert.True(t, strings.HasPrefix(text, strconv.Itoa(i+1)+" of 3\nline "), text)
	}
	assert.Equal(t, several, sample("-n", "3"))
	assert.NotEqual(t, texts[1][7:], texts[2][7:])
	assert.Equal(t, 2, p.command("sample", "whole", "-n", "0").run(t).code)
	two := func(penalty string) string {
		return ok(t, p.command("sample", "whole", "-n", "2", "--temperature", "0", "--repetition-penalty", penalty)).out
	}
	assert.NotEqual(t, two("1"), two("9"))
	// generation_config.json beside the model says what flags do not.
	for _, name := range []string{"config.json", "model.safetensors"} {
		p.write(t, "given/"+name, read(t, filepath.Join(at, name)))
	}
	p.write(t, "given/generation_config.json", `{"do_sample": false, "repetition_penalty": 2, "eos_token_id": [300, 10]}`)
	given := func(args ...string) ended {
		return ok(t, p.command(append([]string{"sample", "given", "--prompt", "line ", "--tokens", "40"}, args...)...))
	}
	r := given("--repetition-penalty", "1")
	assert.Contains(t, r.err, "generation_config.json: temperature 0, repetition_penalty 2\n")
	line, _, _ := strings.Cut(strings.TrimPrefix(greedy, "line "), "\n")
	assert.Equal(t, "line "+line+"\n", r.out, "ends with the first newline")
	assert.NotEqual(t, r.out, given().out)
	assert.Equal(t, sample("--top-p", "1e-9"), greedy)
	assert.Equal(t, 2, p.command("sample", "given", "--top-p", "2").run(t).code)
}

func TestInspect(t *testing.T) {
	t.Parallel()
	p, _ := undisturbedRun(t)
	inspect := func(args ...string) string {
		return ok(t, p.command(append([]string{"inspect"}, args...)...).withoutAdapter()).out
	}
	out := inspect("whole")
	for _, want := range []string{"step-00000080\n", "gpt2, 34688 parameters", "step 80, ", "optimizer adamw {", "every checksum holds", "h.1.mlp.c_fc.weight"} {
		assert.Contains(t, out, want)
	}
	elements := 0.0
	for _, l := range objects(t, inspect("whole", "--json")) {
		size := 1.0
		for _, d := range l["shape"].([]any) {
			size *= d.(float64)
		}
		elements += size
		assert.Equal(t, "F32", l["dtype"])
		assert.EqualValues(t, 0, l["non_finite"])
		assert.Positive(t, l["rms"], l["name"])
	}
	assert.EqualValues(t, 34688, elements)
	parameters := map[string]bool{}
	for _, l := range objects(t, inspect("whole", "--optimizer", "--json")) {
		parameters[l["leaf"].(string)] = true
		for _, slot := range []string{"mu", "nu"} {
			figures := l["state"].(map[string]any)[slot].(map[string]any)
			assert.Positive(t, figures["norm"], l["leaf"])
			assert.EqualValues(t, 0, figures["non_finite"])
		}
		assert.NotContains(t, l, "kron")
	}
	assert.True(t, parameters["wte.weight"] && parameters["h.1.mlp.c_fc.weight"], "%v", parameters)
	assert.Regexp(t, `(?m)^wte\.weight +\[256 32\] +\d.* +\d`, inspect("whole", "--optimizer"))
	none := p.command("inspect", "whole", "--optimizer", "--plot", p.path("x.svg")).withoutAdapter().run(t)
	assert.Equal(t, 2, none.code)
	assert.Contains(t, none.err, "found no Kronecker factors")
}
