package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// change rewrites one file of a checkpoint.
func change(t *testing.T, path string, edit func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, edit(data), 0o666))
}

func TestCorruptNewest(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(d []byte) []byte {
			d[(at+len(d))%len(d)] ^= 0x10
			return d
		}
	}
	for _, c := range []struct {
		name, file string
		edit       func([]byte) []byte
		is         error
		says       string
	}{
		{"last bit of a tensor", "model.safetensors", flip(-1), ErrCorrupt, `tensor "b": crc32c`},
		{"first tensor", "model.safetensors", flip(-9), ErrCorrupt, `tensor "a": crc32c`},
		{"header text", "model.safetensors", flip(10), ErrCorrupt, "model.safetensors"},
		{"header length", "model.safetensors", flip(7), ErrCorrupt, "header of"},
		{"plain file", "config.json", flip(1 << 20), ErrCorrupt, "config.json: crc32c"},
		{"truncated", "config.json", func(d []byte) []byte { return d[:len(d)-1] }, ErrCorrupt, "3145727 bytes, want 3145728"},
		{"longer", "state.json", func(d []byte) []byte { return append(d, ' ') }, ErrCorrupt, "state.json"},
		{"manifest not JSON", manifestName, func(d []byte) []byte { return d[:len(d)/2] }, ErrCorrupt, manifestName},
		{"manifest of the future", manifestName, func(d []byte) []byte {
			return []byte(strings.Replace(string(d), `"format": 1`, `"format": 2`, 1))
		}, ErrVersion, "format 2, want 1"},
		{"file outside", manifestName, func(d []byte) []byte {
			return []byte(strings.Replace(string(d), `"state.json"`, `"../state.json"`, 1))
		}, ErrCorrupt, "not inside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			store := mustCommit(t, root, 10, 20)
			change(t, filepath.Join(root, DirName(20), c.file), c.edit)
			err := Verify(OS, filepath.Join(root, DirName(20)))
			require.ErrorIs(t, err, c.is)
			assert.Contains(t, err.Error(), c.says)

			found, err := store.Newest()
			require.NoError(t, err)
			assert.EqualValues(t, 10, found.Step)
			require.Len(t, found.Rejected, 1, "the decision is handed to the caller")
			assert.Contains(t, found.Rejected[0].String(), DirName(20))

			require.NoError(t, os.RemoveAll(filepath.Join(root, DirName(10))))
			_, err = store.Newest()
			require.ErrorIs(t, err, c.is, "with nothing to fall back on it is an error, not a fresh start")
		})
	}
}

// A checkpoint under the name of another step would be gone on from as that step, and a later save would meet it.
func TestCheckpointUnderAnotherName(t *testing.T) {
	root := t.TempDir()
	store := mustCommit(t, root, 10, 20)
	require.NoError(t, os.Rename(filepath.Join(root, DirName(20)), filepath.Join(root, DirName(30))))
	err := Verify(OS, filepath.Join(root, DirName(30)))
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "manifest.json: step 20, the directory's name says 30")
	found, err := store.Newest()
	require.NoError(t, err)
	assert.EqualValues(t, 10, found.Step)
	require.Len(t, found.Rejected, 1)

	require.NoError(t, os.Rename(filepath.Join(root, DirName(30)), filepath.Join(root, "mine")))
	require.NoError(t, Verify(OS, filepath.Join(root, "mine")), "another name says no step")
}

func TestMissingFile(t *testing.T) {
	root := t.TempDir()
	mustCommit(t, root, 10)
	for _, name := range []string{"config.json", manifestName} {
		require.NoError(t, os.Remove(filepath.Join(root, DirName(10), name)))
		err := Verify(OS, filepath.Join(root, DirName(10)))
		require.ErrorIs(t, err, ErrCorrupt)
		assert.Contains(t, err.Error(), name+": not there")
	}
}

func TestRotate(t *testing.T) {
	root := t.TempDir()
	store := mustCommit(t, root, 1, 2, 3, 4, 5)
	change(t, filepath.Join(root, DirName(5), "config.json"), func(d []byte) []byte { return d[1:] })

	removed, err := store.Rotate(Keep{})
	require.NoError(t, err)
	assert.Empty(t, removed, "0 keeps all")

	removed, err = store.Rotate(Keep{Last: 1, Protect: []int64{2}})
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(3), DirName(1)}, removed, "4 is the newest whole one, 2 is protected, 5 is left to be seen")
	names, err := OS.ReadDir(root)
	require.NoError(t, err)
	assert.Equal(t, []string{DirName(2), DirName(4), DirName(5)}, names)
}
