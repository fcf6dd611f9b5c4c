package model

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
)

// A model that got a layer and a head of its own after it was saved: what is not stored is what a new model of that seed has, the rest as stored.
func TestReadPartial(t *testing.T) {
	def := smallDefinitions(t)[2]
	trained, fresh := Init(def, 9), Init(def, 4)
	lost := func(path string) bool {
		return path == "lm_head.weight" || path[:min(len(path), 15)] == "model.layers.1."
	}
	var kept, want []array.Host
	var wanted []string
	for i, h := range trained {
		if lost(h.Path) {
			wanted, h = append(wanted, h.Path), fresh[i]
		} else {
			kept = append(kept, h)
		}
		want = append(want, h)
	}
	require.Len(t, wanted, 10, "nine of the layer, and the head")
	dir := t.TempDir()
	store(t, def, "model.safetensors", dir, hub(kept, ""))
	allowed := []string{`^lm_head\.`, `^model\.layers\.1\.`}

	got, hosts, drawn, err := ReadPartial(dir, allowed, 4)
	require.NoError(t, err)
	assert.Equal(t, def.Params(), got.Params())
	assert.Equal(t, want, hosts)
	assert.Equal(t, wanted, drawn)

	_, _, err = ReadHF(dir)
	require.ErrorContains(t, err, `"lm_head.weight" is missing`)
	_, _, _, err = ReadPartial(dir, allowed[1:], 4)
	require.ErrorContains(t, err, `"lm_head.weight" is missing`)
	_, _, _, err = ReadPartial(dir, append(allowed, `^h\.1\.`), 4)
	var wrong *PatternError
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, `pattern "^h\\.1\\.": matches none of the 21 parameters`)
	_, _, _, err = ReadPartial(dir, []string{"("}, 4)
	require.ErrorContains(t, err, "missing closing )")

	// What is there has to fit, also where it might be missing, and nothing is left out of the file.
	head := trained[len(trained)-1].Data
	for says, tensor := range map[string]safetensors.Tensor{
		`"lm_head.weight": shape [2 3], want [13 12]`:  safetensors.Float32s("lm_head.weight", []int{2, 3}, head[:6]),
		`"score.weight" is no parameter of this model`: safetensors.Float32s("score.weight", []int{2, 3}, head[:6]),
	} {
		store(t, def, "model.safetensors", dir, append(hub(kept, ""), tensor))
		_, _, _, err = ReadPartial(dir, allowed, 4)
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	_, _, _, err = ReadPartial(dir, []string{""}, 4)
	require.ErrorIs(t, err, os.ErrNotExist)
}
