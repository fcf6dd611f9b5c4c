package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
)

// A run's model in f32 is the checkpoint's, byte for byte; in bf16 and in several files it is read like any other, by us and by its index.
func TestExport(t *testing.T) {
	t.Parallel()
	from, _ := undisturbedRun(t)
	p, run := newPlace(t), from.path("whole")
	f32 := ok(t, p.command("export", run, "--to", p.path("f32")).withoutAdapter())
	assert.Contains(t, f32.out, "parameters in f32, from ")
	weights := func(dir string) string { return read(t, filepath.Join(dir, "model.safetensors")) }
	found, err := filepath.Glob(filepath.Join(run, "checkpoints", "step-*"))
	require.NoError(t, err)
	newest := found[len(found)-1]
	assert.Equal(t, weights(newest), weights(p.path("f32")))

	card := read(t, p.path("f32", "README.md"))
	for _, want := range []string{"library_name: transformers\n", "\n# f32\n", "A model trained from scratch.", "; 1 file; ", "| best validation loss | ", "\ntrain.steps: ", "| trained on | "} {
		assert.Contains(t, card, want)
	}
	assert.NotContains(t, card, from.dir)

	ok(t, p.command("export", newest, "--to", p.path("bf16"), "--dtype", "bf16", "--shard-size", "20KiB").withoutAdapter())
	shards, err := filepath.Glob(p.path("bf16", "model-0000?-of-*.safetensors"))
	require.NoError(t, err)
	require.Greater(t, len(shards), 1)
	whole, err := safetensors.Parse([]byte(weights(newest)))
	require.NoError(t, err)
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, p.path("bf16", "model.safetensors.index.json"))), &index))
	require.Len(t, index.Files, len(whole.Names()))
	for _, name := range whole.Names() {
		f, err := safetensors.Open(p.path("bf16", index.Files[name]))
		require.NoError(t, err)
		dtype, shape, _ := f.Info(name)
		_, want, _ := whole.Info(name)
		assert.Equal(t, "BF16", dtype)
		assert.Equal(t, want, shape)
		a, err := whole.Float32(name)
		require.NoError(t, err)
		b, err := f.Float32(name)
		require.NoError(t, err)
		for i := range a {
			require.InDelta(t, a[i], b[i], 0x1p-8*max(float64(a[i]), -float64(a[i])), name)
		}
		require.NoError(t, f.Close())
	}
	assert.Equal(t, len(whole.Names()), strings.Count(ok(t, p.command("inspect", p.path("bf16"), "--json").withoutAdapter()).out, `"dtype":"BF16"`))
	loss := func(dir string) float64 { return p.loss(t, dir, "--text", "text.txt", "--limit", "512") }
	assert.InDelta(t, loss(newest), loss(p.path("bf16")), 0.02)

	// What training began with says what the weights are stored as; where it is gone, they are what a checkpoint has.
	ok(t, p.train("tuned", "--set", "model.from=bf16", "--set", "train.steps=2", "--set", "train.eval_every=0", "--set", "optimizer.schedule.warmup_steps=0"))
	assert.Contains(t, ok(t, p.command("export", p.path("tuned"), "--to", p.path("own")).withoutAdapter()).out, "parameters in bf16, from ")
	assert.Contains(t, read(t, p.path("own", "README.md")), "base_model: bf16\nbase_model_relation: finetune\n")
	require.NoError(t, os.RemoveAll(p.path("bf16")))
	gone := ok(t, p.command("export", p.path("tuned"), "--to", p.path("own f32")).withoutAdapter())
	assert.Contains(t, gone.out, "parameters in f32, from ")
	assert.Contains(t, gone.err, p.path("bf16")+", which is not there: its names and types of weights are not known")

	for _, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"there already": {[]string{run, "--to", p.path("f32")}, 2, "wanted a new or empty directory"},
		"a file":        {[]string{run, "--to", p.path("text.txt")}, 2, "found a file there, wanted a new or empty directory"},
		"no such size":  {[]string{run, "--to", p.path("x"), "--shard-size", "many"}, 2, `--shard-size: found "many"`},
		"no model":      {[]string{p.dir, "--to", p.path("x")}, 2, "found neither config.json nor checkpoints"},
		"no such type":  {[]string{run, "--to", p.path("x"), "--dtype", "f64"}, 2, "--dtype"},
	} {
		refused(t, p.command(append([]string{"export"}, c.args...)...).withoutAdapter(), c.code, c.says)
	}
	assert.NoDirExists(t, p.path("x"))
}
