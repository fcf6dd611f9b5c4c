package tests

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/state/checkpoint"
)

// A run of adapters is planned, trained, cut into stages, resumed and gone on with by another run, to the same bits, and its checkpoints have nothing of the
// base, which no command changes.
func TestARunOfAdapters(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	short := func(dir string, more ...string) command {
		return p.train(dir, slices.Concat([]string{"--set", "train.eval_every=0", "--set", "train.sample_tokens=0", "--set", "optimizer.schedule.warmup_steps=0"}, more)...)
	}
	ok(t, short("first", "--set", "train.steps=1"))
	ok(t, p.command("export", "first", "--to", "origin"))
	base := read(t, p.path("origin", "model.safetensors"))
	sets := []string{
		"--set", "model.from=origin", "--set", "lora.rank=3", "--set", "lora.target=all-linear", "--set", "lora.dropout=0.1", "--set", "lora.dora=true", "--set", "lora.save=ln_f",
		"--set", "train.steps=4",
	}
	train := func(dir string, more ...string) command { return short(dir, slices.Concat(sets, more)...) }
	last := func(dir string) string { return p.path(dir, "checkpoints", checkpoint.DirName(4)) }
	files := func(dir string) (all []string) {
		for _, name := range []string{model.AdapterWeightsFile, model.AdapterConfigFile, "optimizer.safetensors", "base.json", "config.json"} {
			all = append(all, read(t, filepath.Join(last(dir), name)))
		}
		return all
	}
	said := ok(t, train("whole", "--set", "train.save_every=2"))
	assert.Regexp(t, `adapters, rank 3, .* on 8 matrices`, said.err)
	want := files("whole")
	assert.NoFileExists(t, filepath.Join(last("whole"), "model.safetensors"))
	require.NoError(t, os.RemoveAll(last("whole")))
	ok(t, train("whole", "--set", "train.save_every=2"))
	assert.Equal(t, want, files("whole"), "resumed")
	ok(t, train("staged", "--set", "pipeline.stages=3", "--set", "train.recompute=layers"))
	assert.Equal(t, want, files("staged"))
	t.Run("ranks", func(t *testing.T) {
		gputest.Long(t, "state.TestReplicasLearnWhatOneDoes")
		ok(t, train("ranks", "--set", "train.recompute=attention").onRanks(t, 2))
		assert.Equal(t, want, files("ranks"))
	})

	assert.Contains(t, ok(t, p.command(append([]string{"plan", "run.yaml", "--set", "optimizer.schedule.warmup_steps=0"}, sets...)...)).out, ", frozen ")
	shown := ok(t, p.command("inspect", "whole")).out
	assert.Regexp(t, `adapters: rank 3, .* on 8 matrices \(c_attn, c_fc, c_proj\)`, shown)
	assert.Contains(t, shown, p.path("origin"))
	assert.Contains(t, ok(t, p.command("inspect", "whole", "--optimizer")).out, "lora_B")
	text := ok(t, p.command("sample", "whole", "--tokens", "8")).out
	require.NoError(t, os.CopyFS(p.path("peft"), os.DirFS(last("whole"))))
	for _, name := range []string{"base.json", "manifest.json", "state.json", "optimizer.safetensors", "config.json"} {
		require.NoError(t, os.Remove(p.path("peft", name)))
	}
	assert.Equal(t, text, ok(t, p.command("sample", "peft", "--tokens", "8")).out, "a directory of PEFT")
	assert.Equal(t, base, read(t, p.path("origin", "model.safetensors")))

	refused(t, short("whole", "--set", "model.from=origin", "--set", "lora.from=whole", "--fresh"), 2,
		"fresh start: lora.from: found "+filepath.Join("whole", "checkpoints", checkpoint.DirName(4))+", which would be removed")
	assert.DirExists(t, last("whole"))

	if testing.Short() {
		return
	}
	// Another run goes on with the adapters; at a rate of 0 they stay as they are.
	on := func(dir string, more ...string) command {
		return short(dir, slices.Concat([]string{"--set", "model.from=origin", "--set", "train.steps=4"}, more)...)
	}
	still := []string{"--set", "optimizer.learning_rate=0", "--set", "optimizer.schedule.learning_rate_end=0"}
	again := ok(t, on("again", append(still, "--set", "lora.from=peft")...))
	assert.NotContains(t, again.err, "warning: lora.from")
	assert.Equal(t, want[:2], files("again")[:2])
	require.NoError(t, os.RemoveAll(p.path("peft")))
	assert.Contains(t, ok(t, on("again", append(still, "--set", "lora.from=peft")...)).err, "lora.from (--set): peft is not there any more; the run goes on without it")
	assert.Contains(t, ok(t, on("narrow", append(still, "--set", "lora.from=whole", "--set", "model.base=bf16")...)).err, "was trained upon a base in f32, and model.base is bf16")
	require.NoError(t, os.CopyFS(p.path("other"), os.DirFS(p.path("origin"))))
	p.change(t, "other/model.safetensors", "wpe.weight", 3, 1)
	assert.Regexp(t, `warning: lora.from: .* was trained upon .*origin, sha256:\w+, and model.from, other, has other parameters`,
		ok(t, short("upon", "--set", "train.steps=1", "--set", "model.from=other", "--set", "lora.from=whole")).err)

	refused(t, p.train("none", "--set", "lora.rank=3"), 2, "lora.rank (--set): found 3, wanted nothing without model.from")
	refused(t, on("none", "--set", "lora.alpha=3"), 2, "lora.alpha (--set): found 3.0, wanted nothing without lora.rank or lora.from")
	refused(t, on("none", "--set", "lora.from=whole", "--set", "lora.rank=3"), 2, "lora.rank (--set): found 3, wanted nothing beside lora.from")
	refused(t, on("none", "--set", "lora.rank=3", "--set", "lora.target=c_atn"), 2, "lora.target (--set)", `did you mean "c_attn"?`)
	refused(t, on("none", "--set", "lora.rank=3", "--set", "train.save_frozen=true"), 2, "train.save_frozen (--set): found true with adapters")
	refused(t, p.train("none", "--set", "model.from=whole"), 2, "model.from (--set): found adapters in", "lora.from=whole goes on with them")
	refused(t, train("whole", "--set", "lora.alpha=5"), 2, "lora.alpha: found 0, wanted 5")

	// The base moves, and is known again; another one is not.
	require.NoError(t, os.Rename(p.path("origin"), p.path("moved")))
	refused(t, p.command("sample", "staged"), 6, p.path("origin"), "say where it is with --base")
	assert.Equal(t, text, ok(t, p.command("sample", "staged", "--tokens", "8", "--base", "moved")).out)
	require.NoError(t, os.RemoveAll(last("whole")))
	assert.Contains(t, ok(t, train("whole", "--set", "train.save_every=2", "--set", "model.from=moved")).err, p.path("moved")+" has what "+p.path("origin")+" had, sha256:")
	assert.Equal(t, want[0], files("whole")[0])
	p.change(t, "moved/model.safetensors", "wpe.weight", 3, 0.5)
	refused(t, p.command("sample", "whole"), 6, `base "`+p.path("moved")+`": found`, "fingerprint sha256:")
}
