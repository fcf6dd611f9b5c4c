package hub

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// FuzzIndex: an index that is accepted names files of its own directory alone.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata": {"total_size": 80}, "weight_map": {"wte.weight": "model-00001-of-00002.safetensors", "ln_f.weight": "model-00002-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "../model.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "..", "b": ".", "c": "", "d": "x\\y", "e": "/x"}}`))
	f.Add([]byte(`{"weight_map": {}}`))
	dir := f.TempDir()
	name := filepath.Join(dir, "model.safetensors.index.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.NoError(t, os.WriteFile(name, raw, 0o666))
		frugal.Parse(t, len(raw), func() {
			files, err := opened(t, dir).WeightFiles()
			if err != nil {
				return
			}
			require.NotEmpty(t, files)
			for _, file := range files {
				require.Equal(t, dir, filepath.Dir(file))
				require.NotEqual(t, dir, file)
			}
		})
	})
}
