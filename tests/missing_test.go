package tests

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/state/checkpoint"
)

// A model of one layer learns on with a second one, which it has not been stored with.
func TestModelThatLacksParameters(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.runDir(t, "first")
	short := []string{"--set", "train.steps=2", "--set", "train.eval_every=0", "--set", "optimizer.schedule.warmup_steps=0"}
	ok(t, p.train("first", append(short, "--set", "model.layers=1")...))
	first := p.path("first", "checkpoints", checkpoint.DirName(2))
	p.write(t, "model/model.safetensors", read(t, filepath.Join(first, "model.safetensors")))
	two, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 32, Vocab: 256, Context: 32})
	require.NoError(t, err)
	config, err := model.ConfigJSON(two, "F32")
	require.NoError(t, err)
	p.write(t, "model/config.json", string(config))

	from := append(short, "--set", "model.from=model", "--set", "optimizer.learning_rate=0", "--set", "optimizer.schedule.learning_rate_end=0")
	refused(t, p.train("run", from...), 6, `"h.1.attn.c_attn.bias" is missing`)
	refused(t, p.train("run", append(from, "--set", "model.allow_missing=[^h.2]")...), 2, "model.allow_missing (--set)", `pattern "^h.2": matches none of the 28 parameters`)
	refused(t, p.train("run", append(from, "--set", "model.allow_missing=[(]")...), 2, "model.allow_missing", "regular expression")
	refused(t, p.train("run", append(short, "--set", "model.allow_missing=[^h.1]")...), 2, "model.allow_missing (--set)", "nothing without model.from")

	r := ok(t, p.train("run", append(from, "--set", "model.allow_missing=['^h.1[.]']")...))
	assert.Contains(t, r.err, "parameters drawn anew, 12 of 28: h.1.attn.c_attn.bias, ")
	assert.Contains(t, read(t, p.path("run", "report.md")), "| parameters drawn anew | 12 of 28: h.1.attn.c_attn.bias, ")
	_, stored, err := hub.ReadHF(first)
	require.NoError(t, err)
	_, got, err := hub.ReadHF(p.path("run", "checkpoints", checkpoint.DirName(2)))
	require.NoError(t, err)
	want := map[string]buffers.Host{}
	for _, h := range append(model.Init(two, 7), stored...) {
		want[h.Path] = h // a stored one before one of a new model
	}
	for _, h := range got {
		assert.Equal(t, want[h.Path], h)
	}
}
