package hub

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	. "gputrain/model"
)

// A model that got a layer and a head of its own after it was saved: what is not stored is what a new model of that
// seed has, the rest as stored.
func TestPartial(t *testing.T) {
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
	store(t, def, "model.safetensors", dir, named(kept, ""))
	allowed := []string{`^lm_head\.`, `^model\.layers\.1\.`}

	got, open, err := opened(t, dir).Partial(allowed)
	require.NoError(t, err)
	hosts, drawn := open.Params(4)
	assert.Equal(t, def.Params(), got.Params())
	require.Len(t, hosts, len(want))
	for i, h := range hosts {
		require.Nil(t, h.Data, "it is read when it is used")
		data := make([]float32, h.Elements())
		require.NoError(t, h.Copy(data[:3], 0))
		require.NoError(t, h.Copy(data[3:], 3))
		h.Data, h.Read, h.Hold = data, nil, nil
		assert.Equal(t, want[i], h)
	}
	assert.Equal(t, wanted, drawn)

	_, _, err = ReadHF(dir)
	require.ErrorContains(t, err, `"lm_head.weight" is missing`)
	_, _, err = opened(t, dir).Partial(allowed[1:])
	require.ErrorContains(t, err, `"lm_head.weight" is missing`)
	_, _, err = opened(t, dir).Partial(append(allowed, `^h\.1\.`))
	var wrong *PatternError
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, `pattern "^h\\.1\\.": matches none of the 21 parameters`)
	_, _, err = opened(t, dir).Partial([]string{"("})
	require.ErrorContains(t, err, "missing closing )")

	// What is there has to fit, also where it might be missing, and nothing is left out of the file.
	head := trained[len(trained)-1].Data
	for says, tensor := range map[string]safetensors.Tensor{
		`"lm_head.weight": shape [2 3], want [13 12]`:  safetensors.Float32s("lm_head.weight", []int{2, 3}, head[:6]),
		`"score.weight" is no parameter of this model`: safetensors.Float32s("score.weight", []int{2, 3}, head[:6]),
	} {
		store(t, def, "model.safetensors", dir, append(named(kept, ""), tensor))
		_, _, err = opened(t, dir).Partial(allowed)
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	_, _, err = opened(t, dir).Partial([]string{""})
	require.ErrorIs(t, err, os.ErrNotExist)
}
