package model

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/system"
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

// An export touches nothing that is there, whatever it is called, whether it ends well or not; and its own source may have any name.
func TestExportTouchesNothingElse(t *testing.T) {
	def := byteGPT(t)
	hosts := Init(def, 1)
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, writeHF(at("m.tmp"), def, hosts, "F32"))
	thesis := put(t, "years of work", at("m.tmp"), "model-notes", "a.txt")
	require.NoError(t, writeHF(at("m"), def, Init(def, 2), "F32"))
	require.Error(t, writeHF(at("m"), def, hosts[1:], "F32"))
	assert.FileExists(t, thesis)
	source, err := openWeights(at("m.tmp"), def)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(at("m")))
	require.NoError(t, Export(at("m"), def, source.Read, ExportOptions{DType: "BF16"}))
	assert.Equal(t, []string{"config.json", "model-notes", "model.safetensors"}, namesIn(t, at("m.tmp")))
	assert.Equal(t, []string{"m", "m.tmp"}, namesIn(t, root))
}

// An export that fails leaves nothing, the folders that it made for its own included, and says why once.
func TestExportThatFailsLeavesNothing(t *testing.T) {
	def := byteGPT(t)
	hosts := Init(def, 1)
	root := t.TempDir()
	require.Error(t, writeHF(filepath.Join(root, "a", "b", "model"), def, hosts[1:], "F32"))
	assert.Empty(t, namesIn(t, root))
	err := writeHF(filepath.Join(put(t, "", root, "file"), "model"), def, hosts, "F32")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "\n")
	assert.Equal(t, []string{"file"}, namesIn(t, root))
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

// What a dead export has left is removed by the next one, by the names of its files alone; what may be of a living one, or somebody's, stays.
func TestExportRemovesWhatDeadOnesLeft(t *testing.T) {
	def := byteGPT(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	ours := owner{Host: host, Process: 1, Files: []string{"config.json", "model.safetensors", "vocab.json"}}
	elsewhere, outside := ours, ours
	elsewhere.Host += "x"
	outside.Files = []string{"../../mine"}
	mine := func(t *testing.T, root string) { put(t, "years of work", root, "mine") }
	for name, c := range map[string]struct {
		owner any
		make  func(t *testing.T, root, dir string)
		says  string
		left  bool
	}{
		"dead":               {owner: ours, says: "removed "},
		"on another machine": {owner: elsewhere, says: "of process 1 on " + host + "x", left: true},
		"with a file of somebody's": {owner: ours, make: func(t *testing.T, _, dir string) {
			put(t, "", dir, exportModel, "notes.txt")
		}, says: "stays: ", left: true},
		"that names a file outside": {owner: outside, says: `found the file "../../mine", wanted a name`, left: true},
		"that leads outside": {owner: owner{Host: host, Files: []string{"mine"}}, make: func(t *testing.T, root, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, exportModel)))
			require.NoError(t, os.Symlink(root, filepath.Join(dir, exportModel)))
		}, says: "path escapes", left: true},
		"that says nothing": {owner: "", says: "stays: owner.json", left: true},
		"alive": {owner: ours, make: func(t *testing.T, _, dir string) {
			f, err := os.Open(filepath.Join(dir, exportOwner))
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			if err := system.Lock(f, true); errors.Is(err, system.ErrNoLocks) {
				t.Skip(err)
			} else {
				require.NoError(t, err)
			}
		}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			mine(t, root)
			dir := filepath.Join(root, exportPrefix+"x")
			raw, err := json.Marshal(c.owner)
			require.NoError(t, err)
			put(t, string(raw), dir, exportOwner)
			put(t, "half a", dir, exportModel, "model.safetensors")
			if c.make != nil {
				c.make(t, root, dir)
			}
			var told []string
			hosts := Init(def, 1)
			require.NoError(t, Export(filepath.Join(root, "model"), def, func(path string) ([]float32, error) {
				for _, h := range hosts {
					if h.Path == path {
						return h.Data, nil
					}
				}
				return nil, errNone
			}, ExportOptions{Tell: func(what string) { told = append(told, what) }}))
			assert.Contains(t, strings.Join(told, "\n"), c.says)
			assert.Equal(t, c.says == "", told == nil)
			want := []string{"mine", "model"}
			if c.left {
				want = append([]string{filepath.Base(dir)}, want...)
				assert.FileExists(t, filepath.Join(dir, exportOwner))
			}
			assert.Equal(t, want, namesIn(t, root))
		})
	}
}
