package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/state/checkpoint"
)

// Parameters whose rate is multiplied by nothing keep every bit, weight decay or not, whatever optimizer learns the others.
func TestFrozenParameters(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "state.TestFrozenParametersLeaveTheOthersTheirBits")
	p := newPlace(t)
	for _, optimizer := range gputest.Rows([]string{"adamw", "adafactor", "muon", "quad"}, 2) {
		ok(t, p.train(optimizer, "--set", "train.steps=2", "--set", "train.eval_every=0", "--set", "optimizer.schedule.warmup_steps=0",
			"--set", "optimizer.name="+optimizer, "--set", "optimizer.decay_mask=['.']", "--set", `optimizer.rates=[{match: '^wte|^h\.0\.', multiplier: 0}]`))
		def, got, err := hub.ReadHF(p.path(optimizer, "checkpoints", checkpoint.DirName(2)))
		require.NoError(t, err)
		frozen := 0
		for i, drawn := range model.Init(def, 7) {
			if strings.HasPrefix(drawn.Path, "wte") || strings.HasPrefix(drawn.Path, "h.0.") {
				frozen++
				assert.Equal(t, drawn, got[i], optimizer)
			} else {
				assert.NotEqual(t, drawn, got[i], optimizer)
			}
		}
		assert.Equal(t, 1+12, frozen)
	}
	refused(t, p.train("none", "--set", "optimizer.rates=[{match: ^nope, multiplier: 0}]"), 2, `pattern "^nope": matches none of the`)
	refused(t, p.train("none", "--set", "optimizer.rates=[{match: ^wte, multiplier: -1}]"), 2, "optimizer.rates[0].multiplier (--set)", "wanted 0 to")
	refused(t, p.train("none", "--set", "optimizer.rates=[{match: ^wte, factor: 0}]"), 2, "optimizer.rates", "factor")
	refused(t, p.train("none", "--set", "optimizer.rates=[{match: '.', multiplier: 0}]"), 2, "optimizer.rates (--set)", "a multiplier of 0 for all")
	refused(t, p.train("none", "--set", "optimizer.rates=[{match: ^wte, multiplier: 0}]", "--set", "train.histogram_match=[wte]"), 2, "train.histogram_match", "frozen parameters alone")
}

// A run with frozen parameters is planned, trained with everything around it, on one device and on stages, and resumed to the same bytes.
func TestARunWithFrozenParameters(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "state.TestFrozenParametersAreResumed, pipeline.TestFrozenParametersOnStages")
	p := newPlace(t)
	sets := []string{
		"--set", "optimizer.name=quad", "--set", "optimizer.parameters.block_size=8", "--set", "train.eval_every=2", "--set", "train.save_every=2", "--set", "train.histogram_every=2", "--set", "optimizer.schedule.warmup_steps=0",
		"--set", "train.accumulate=2", "--set", `optimizer.rates=[{match: '^h\.1\.|^ln_f', multiplier: 1}, {match: '.*', multiplier: 0}]`,
	}
	train := func(dir string, more ...string) command { return p.train(dir, slices.Concat(sets, more)...) }
	files := func(dir string) (all []string) {
		for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
			all = append(all, read(t, p.path(dir, "checkpoints", checkpoint.DirName(4), name)))
		}
		return all
	}
	said := ok(t, train("whole", "--set", "train.steps=4"))
	assert.Contains(t, said.err, "parameters frozen, ")
	assert.Regexp(t, `memory planned .*, frozen `, said.err)
	ok(t, train("whole", "--set", "train.steps=4")) // done
	ok(t, train("staged", "--set", "train.steps=4", "--set", "pipeline.stages=2"))
	assert.Equal(t, files("whole"), files("staged"))
	require.NoError(t, os.RemoveAll(p.path("whole", "checkpoints", checkpoint.DirName(4))))
	want := files("staged")
	ok(t, train("whole", "--set", "train.steps=4"))
	assert.Equal(t, want, files("whole"))

	saved, err := safetensors.Open(p.path("whole", "checkpoints", checkpoint.DirName(4), "optimizer.safetensors"))
	require.NoError(t, err)
	defer saved.Close()
	assert.Contains(t, saved.Names(), "mu/ln_f.weight")
	assert.NotContains(t, saved.Names(), "mu/wte.weight")
	shown := ok(t, p.command("inspect", "whole", "--optimizer"))
	assert.Contains(t, shown.out, "h.1.attn.c_attn.weight")
	assert.NotContains(t, shown.out, "h.0.attn")
	assert.Contains(t, ok(t, p.command(append([]string{"plan", "run.yaml"}, sets...)...)).out, ", frozen ")
	assert.NotContains(t, read(t, p.path("whole", "histograms.jsonl")), "wte")
	ok(t, p.command("sample", "whole", "--tokens", "4"))
	ok(t, p.command("export", "whole", "--to", "model"))
}

// Checkpoints that leave out what is frozen name where it is, and are resumed, sampled and exported as whole ones are; what is no longer what was
// trained upon is refused by its name.
func TestCheckpointsWithoutWhatIsFrozen(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "state.TestCheckpointsKeepTheirBaseAsTheirRunDid")
	p := newPlace(t)
	ok(t, p.train("first", "--set", "train.steps=1", "--set", "optimizer.schedule.warmup_steps=0"))
	ok(t, p.command("export", "first", "--to", "origin"))
	sets := []string{
		"--set", "model.from=origin", "--set", "train.save_every=2", "--set", "train.eval_every=0", "--set", "train.sample_tokens=0", "--set", "optimizer.schedule.warmup_steps=0",
		"--set", `optimizer.rates=[{match: '^wte|^wpe|^h\.0\.', multiplier: 0}]`,
	}
	train := func(dir string, more ...string) command {
		return p.train(dir, slices.Concat(sets, []string{"--set", "train.steps=4"}, more)...)
	}
	const without = "train.save_frozen=false"
	last := func(dir string) string { return p.path(dir, "checkpoints", checkpoint.DirName(4)) }
	ok(t, train("whole"))
	ok(t, train("part", "--set", without))
	ok(t, train("staged", "--set", without, "--set", "pipeline.stages=2"))
	weights, err := safetensors.Open(filepath.Join(last("part"), "model.safetensors"))
	require.NoError(t, err)
	assert.NotContains(t, weights.Names(), "wte.weight")
	assert.Contains(t, weights.Names(), "h.1.attn.c_attn.weight")
	require.NoError(t, weights.Close())
	for _, name := range []string{"model.safetensors", "optimizer.safetensors", "base.json"} {
		assert.Equal(t, read(t, filepath.Join(last("part"), name)), read(t, filepath.Join(last("staged"), name)), name)
	}
	for _, dir := range []string{"whole", "part"} {
		ok(t, p.command("export", dir, "--to", "of "+dir))
	}
	assert.Equal(t, read(t, p.path("of whole", "model.safetensors")), read(t, p.path("of part", "model.safetensors")))
	assert.Contains(t, ok(t, p.command("inspect", "part")).out, "what is frozen is not here but in "+p.path("origin"))
	assert.Equal(t, ok(t, p.command("sample", "whole", "--tokens", "8")).out, ok(t, p.command("sample", "part", "--tokens", "8")).out)

	want := read(t, filepath.Join(last("part"), "model.safetensors"))
	require.NoError(t, os.RemoveAll(last("part")))
	ok(t, train("part", "--set", without))
	assert.Equal(t, want, read(t, filepath.Join(last("part"), "model.safetensors")))
	require.NoError(t, os.RemoveAll(last("part")))
	ok(t, train("part")) // whole ones again
	assert.Equal(t, read(t, filepath.Join(last("whole"), "model.safetensors")), read(t, filepath.Join(last("part"), "model.safetensors")))

	// The directory moves, and the run with it. Nothing else takes its place.
	said := ok(t, p.command("sample", "staged", "--tokens", "8"))
	require.NoError(t, os.CopyFS(p.path("followed"), os.DirFS(p.path("staged"))))
	require.NoError(t, os.Rename(p.path("origin"), p.path("moved")))
	assert.Contains(t, refused(t, p.command("sample", "followed"), 6, p.path("origin"), "say where it is with --base").err, "no such file")
	assert.Equal(t, said.out, ok(t, p.command("sample", "followed", "--tokens", "8", "--base", "moved")).out)
	assert.Contains(t, ok(t, p.command("inspect", "followed", "--base", "moved")).out, "not here but in "+p.path("moved"))
	ok(t, p.command("export", "followed", "--base", "moved", "--to", "of followed"))
	assert.Equal(t, read(t, p.path("of whole", "model.safetensors")), read(t, p.path("of followed", "model.safetensors")))
	refused(t, train("followed", "--set", without), 2, "model.from", "origin is not there any more, and what is frozen is in it")
	refused(t, train("followed", "--set", without, "--set", "model.from=whole"), 2, "which has parameters of fingerprint sha256:", "wanted sha256:")
	assert.Contains(t, ok(t, train("followed", "--set", without, "--set", "model.from=moved")).err, p.path("moved")+" has what "+p.path("origin")+" had, sha256:")
	assert.Equal(t, said.out, ok(t, p.command("sample", "followed", "--tokens", "8")).out)
	assert.Contains(t, read(t, p.path("followed", "run.yaml")), p.path("moved"))
	refused(t, train("followed", "--set", without), 2, "origin, which is not there, wanted "+p.path("moved"))
	require.NoError(t, os.Rename(p.path("moved"), p.path("origin")))

	// A run's own checkpoints are nothing to begin with, where they would be removed.
	refused(t, train("whole", "--set", "model.from=whole", "--fresh"), 2, "fresh start: model.from: found "+filepath.Join("whole", "checkpoints", checkpoint.DirName(4))+", which would be removed")
	refused(t, train("whole", "--set", "model.from=whole", "--set", without, "--fresh"), 2, "wanted them outside of the run's own directory")
	assert.NotContains(t, refused(t, train("whole", "--set", "model.from=whole"), 2, "model.from: found").err, "--fresh")
	refused(t, train("whole", "--set", "data.text=whole/metrics.jsonl", "--fresh"), 2, "data.text: found whole/metrics.jsonl, which would be removed")
	assert.DirExists(t, last("whole"))

	p.change(t, "origin/model.safetensors", "wpe.weight", 3, 0.5)
	for _, c := range []command{train("staged", "--set", without, "--set", "pipeline.stages=2", "--reschedule"), p.command("export", "staged", "--to", "none")} {
		r := c.run(t)
		assert.NotZero(t, r.code)
		assert.Contains(t, r.err, "base \""+p.path("origin")+"\": found 14 parameters of fingerprint sha256:")
	}
	require.NoError(t, os.Rename(p.path("origin"), p.path("elsewhere")))
	r := p.command("sample", "staged").run(t)
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, p.path("origin"))

	refused(t, p.train("none", "--set", without), 2, "train.save_frozen (--set): found false and no frozen parameters")
	refused(t, p.train("none", "--set", without, "--set", "optimizer.rates=[{match: wte, multiplier: 0}]"), 2, "weights that are drawn from the seed", "model.from")
	refused(t, p.train("none", "--set", "model.base=nf4-nested", "--set", "optimizer.rates=[{match: wte, multiplier: 0}]"), 2,
		"train.save_frozen (default): found true and model.base nf4-nested, wanted false")
	deeper := strings.Replace(read(t, p.path("elsewhere", "config.json")), `"n_layer": 2`, `"n_layer": 3`, 1)
	require.Contains(t, deeper, `"n_layer": 3`)
	p.write(t, "elsewhere/config.json", deeper)
	refused(t, p.train("none", "--set", without, "--set", `optimizer.rates=[{match: '^h\.2\.ln_1', multiplier: 0}]`, "--set", "model.from=elsewhere",
		"--set", `model.allow_missing=['^h\.2\.']`), 2, `"h.2.ln_1.`, "frozen, which model.from lacks")
}

// What devices keep in bf16 is saved in bf16 where that is asked for, in half the bytes, and a run that goes on from it, on one device or on stages, has the
// bits of one that saves it in f32.
func TestCheckpointsOfWhatIsFrozenInBF16(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "state.TestFrozenParametersInFewerBits")
	p := newPlace(t)
	sets := []string{
		"--set", "model.base=bf16", "--set", "optimizer.schedule.warmup_steps=0", "--set", "train.save_every=2", "--set", "train.eval_every=0", "--set", "train.sample_tokens=0", "--set", "train.keep=9",
		"--set", `optimizer.rates=[{match: '^wte|^wpe|^h\.0\.', multiplier: 0}]`,
	}
	const as = "train.save_frozen_as=bf16"
	train := func(dir string, more ...string) command {
		return p.train(dir, slices.Concat(sets, []string{"--set", "train.steps=4"}, more)...)
	}
	at := func(dir string, step int64, name ...string) string {
		return p.path(append([]string{dir, "checkpoints", checkpoint.DirName(step)}, name...)...)
	}
	ok(t, train("wide"))
	ok(t, train("half", "--set", as))
	ok(t, train("staged", "--set", as, "--set", "pipeline.stages=2", "--set", "train.save_async=false"))
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		assert.Equal(t, read(t, at("half", 4, name)), read(t, at("staged", 4, name)), name)
	}
	stored, err := safetensors.Open(at("half", 4, "model.safetensors"))
	require.NoError(t, err)
	defer stored.Close()
	for name, want := range map[string]string{"wte.weight": "BF16", "h.0.mlp.c_fc.weight": "BF16", "h.1.mlp.c_fc.weight": "F32", "ln_f.weight": "F32"} {
		dtype, _, _ := stored.Info(name)
		assert.Equal(t, want, dtype, name)
	}
	_, wide, err := hub.ReadHF(at("wide", 4))
	require.NoError(t, err)
	_, half, err := hub.ReadHF(at("half", 4))
	require.NoError(t, err)
	assert.Equal(t, wide, half)

	want := read(t, at("wide", 4, "model.safetensors"))
	require.NoError(t, os.RemoveAll(at("half", 4)))
	ok(t, train("half")) // from one in bf16 to one in f32
	assert.Equal(t, want, read(t, at("half", 4, "model.safetensors")))
	assert.Equal(t, read(t, at("wide", 4, "optimizer.safetensors")), read(t, at("half", 4, "optimizer.safetensors")))
	assert.Equal(t, ok(t, p.command("sample", "wide", "--tokens", "8")).out, ok(t, p.command("sample", "staged", "--tokens", "8")).out)

	refused(t, p.train("none", "--set", as), 2, "train.save_frozen_as (--set): found bf16 and no frozen parameters")
	refused(t, p.train("none", "--set", as, "--set", "optimizer.rates=[{match: wte, multiplier: 0}]"), 2, "found bf16 and model.base f32, wanted both bf16")
	refused(t, p.train("none", "--set", as, "--set", "model.from=wide", "--set", "lora.rank=2", "--set", "model.base=bf16"), 2, "found bf16 and checkpoints without frozen parameters")
}
