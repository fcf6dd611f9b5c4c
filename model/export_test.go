package model

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
)

// A model in several files is the model in one: read by us, and file by file by what the index says.
func TestExportInShards(t *testing.T) {
	for _, def := range smallDefinitions(t) {
		hosts := Init(def, 5)
		one, several := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "several")
		require.NoError(t, writeHF(one, def, hosts, "BF16"))
		stored, err := OpenWeights(one, def)
		require.NoError(t, err)
		largest := 0
		for _, h := range hosts {
			largest = max(largest, 2*len(h.Data))
		}
		require.NoError(t, Export(several, def, stored.Read, ExportOptions{DType: "BF16", ShardBytes: uint64(largest)}))
		require.NoError(t, stored.Close())
		_, a, err := ReadHF(one)
		require.NoError(t, err)
		_, b, err := ReadHF(several)
		require.NoError(t, err)
		assert.Equal(t, a, b)

		files, err := WeightFiles(several)
		require.NoError(t, err)
		require.Greater(t, len(files), 1)
		index, err := readIndex(filepath.Join(several, "model.safetensors.index.json"))
		require.NoError(t, err)
		tensors := 0
		for _, name := range files {
			f, err := safetensors.Open(name)
			require.NoError(t, err)
			bytes := 0
			for _, tensor := range f.Names() {
				assert.Equal(t, filepath.Base(name), index[tensor])
				data, err := f.Float32(tensor)
				require.NoError(t, err)
				bytes += 2 * len(data)
				tensors++
			}
			assert.LessOrEqual(t, bytes, largest)
			assert.Equal(t, Metadata(), f.Metadata())
			require.NoError(t, f.Close())
		}
		assert.Equal(t, len(hosts), tensors)
		assert.Len(t, index, tensors)
		assert.NoFileExists(t, filepath.Join(several, "model.safetensors"))
	}
}

// Nothing is left where a model cannot be exported, and nothing is written over.
func TestExportIsWholeOrNotThere(t *testing.T) {
	def := byteGPT(t)
	hosts := Init(def, 1)
	root := t.TempDir()
	dir := filepath.Join(root, "model")
	require.Error(t, writeHF(dir, def, hosts[:len(hosts)-1], "F32"))
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, os.Mkdir(dir, 0o777))
	require.NoError(t, writeHF(dir, def, hosts, "F32"), "an empty directory will do")
	require.ErrorContains(t, writeHF(dir, def, hosts, "F32"), "found 2 files there, wanted a new or empty directory")
	stored, err := OpenWeights(dir, def)
	require.NoError(t, err)
	defer stored.Close()
	_, err = stored.Read("no.such")
	require.ErrorContains(t, err, `"no.such" is no parameter`)
}
