package model

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// put writes a file, and the directories that it lies in.
func put(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
	return name
}

// namesIn are the names in a directory.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// The directory has the rights that any new one has, and one that was there keeps its own.
func TestExportHasTheRightsOfADirectory(t *testing.T) {
	def := byteGPT(t)
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	mode := func(name string) fs.FileMode {
		info, err := os.Stat(at(name))
		require.NoError(t, err)
		return info.Mode()
	}
	require.NoError(t, os.Mkdir(at("usual"), 0o777))
	require.NoError(t, os.Mkdir(at("mine"), 0o700))
	require.NoError(t, writeHF(at("new"), def, Init(def, 1), "F32"))
	require.NoError(t, writeHF(at("mine"), def, Init(def, 1), "F32"))
	assert.Equal(t, mode("usual"), mode("new"))
	assert.Equal(t, fs.ModeDir|0o700, mode("mine"))
}

// What a link leads to becomes the model; one that leads nowhere is refused, as what it was to lead to may be on a disk that is not there.
func TestExportToALink(t *testing.T) {
	def := byteGPT(t)
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, os.MkdirAll(at("disk/model"), 0o777))
	require.NoError(t, os.Symlink("disk/model", at("link")))
	require.NoError(t, writeHF(at("link"), def, Init(def, 1), "F32"))
	assert.Equal(t, []string{"config.json", "model.safetensors"}, namesIn(t, at("disk/model")))
	to, err := os.Readlink(at("link"))
	require.NoError(t, err)
	assert.Equal(t, "disk/model", to)
	require.NoError(t, os.Symlink("disk/none", at("dangling")))
	err = writeHF(at("dangling"), def, Init(def, 1), "F32")
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, "found a link that leads nowhere")
	assert.Equal(t, []string{"dangling", "disk", "link"}, namesIn(t, root))
	assert.Equal(t, []string{"model"}, namesIn(t, at("disk")))
}

// Of several exports to one directory one is there as a whole, and the others say so and leave nothing.
func TestExportsAtOnce(t *testing.T) {
	def := byteGPT(t)
	root := t.TempDir()
	dir := filepath.Join(root, "model")
	const many = 6
	errs := make([]error, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() { errs[i] = writeHF(dir, def, Init(def, uint64(i)), "F32") })
	}
	all.Wait()
	won := -1
	for i, err := range errs {
		if err == nil {
			assert.Equal(t, -1, won, "two say that they have written it")
			won = i
			continue
		}
		require.ErrorIs(t, err, fs.ErrExist)
		assert.ErrorContains(t, err, "found 2 files there")
	}
	require.NotEqual(t, -1, won)
	_, got, err := readHF(dir)
	require.NoError(t, err)
	assert.Equal(t, Init(def, uint64(won)), got)
	assert.Equal(t, []string{"model"}, namesIn(t, root))
}

// What a dead export has left is removed by the next one, which says so.
func TestExportRemovesWhatDeadOnesLeft(t *testing.T) {
	def, root := byteGPT(t), t.TempDir()
	left := filepath.Join(root, ".gputrain-export-ABCDEFGHIJKLMNOPQRSTUVWXYZ") // of an older program
	put(t, "half a", left, "model", "model.safetensors")
	long := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(left, long, long))
	var told []string
	data := map[string][]float32{}
	for _, h := range Init(def, 1) {
		data[h.Path] = h.Data
	}
	read := func(path string) ([]float32, error) { return data[path], nil }
	require.NoError(t, Export(filepath.Join(root, "model"), def, read, ExportOptions{Tell: func(what string) { told = append(told, what) }}))
	assert.Equal(t, []string{"removed " + left + ", left by an interrupted export"}, told)
	assert.Equal(t, []string{"model"}, namesIn(t, root))
}
