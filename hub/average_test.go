package hub

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/model"
)

// A directory with a mean of its weights gives them with the share of that; one whose mean is yet to begin gives them as they are, and one that lacks the
// file of the mean is refused.
func TestAverage(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 8, Vocab: 11, Context: 4})
	require.NoError(t, err)
	hosts := model.Init(def, 3)
	dir := filepath.Join(t.TempDir(), "m")
	require.NoError(t, model.Export(dir, def, func(path string) ([]float32, error) {
		for _, h := range hosts {
			if h.Path == path {
				return h.Data, nil
			}
		}
		return nil, os.ErrNotExist
	}, model.ExportOptions{}))
	record := func(updates string) {
		text := `{"optimizer":{"config":{"options":{"average":{"from":4,"horizon":3,"blend":0.25}}},"counts":{"updates":` + updates + `}}}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, recordFile), []byte(text), 0o666))
	}
	read := func(b *Bundle) []float32 {
		t.Cleanup(func() { assert.NoError(t, b.Close()) })
		s, err := b.Weights(def)
		require.NoError(t, err)
		data, err := s.Read("ln_f.weight")
		require.NoError(t, err)
		return data
	}
	ones := []float32{1, 1, 1, 1, 1, 1, 1, 1}
	record("3")
	assert.Equal(t, ones, read(Open(dir)), "the mean is yet to begin")
	record("4")
	_, err = Open(dir).Weights(def)
	require.ErrorContains(t, err, "found no optimizer.safetensors, wanted it for the mean of the weights that state.json tells of")

	f, err := os.Create(filepath.Join(dir, optimizerFile))
	require.NoError(t, err)
	require.NoError(t, safetensors.Write(f, []safetensors.Tensor{{Name: averagePrefix + "ln_f.weight", DType: "F32", Shape: []int{8}, Data: func(w io.Writer) error {
		_, err := w.Write([]byte(strings.Repeat("\x00\x00\xa0\x40", 8))) // 5
		return err
	}}}, nil))
	require.NoError(t, f.Close())
	assert.Equal(t, []float32{2, 2, 2, 2, 2, 2, 2, 2}, read(Open(dir)))
	assert.Equal(t, ones, read(Open(dir).Trained()))
	blend, err := Open(dir).Average()
	require.NoError(t, err)
	assert.InDelta(t, 0.25, blend, 0)
}
