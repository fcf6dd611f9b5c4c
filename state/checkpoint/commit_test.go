package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tensorFile is a small safetensors file made by hand, whose values depend on the step.
func tensorFile(step int64) []byte {
	header := `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"empty":{"dtype":"F32","shape":[0],"data_offsets":[8,8]},` +
		`"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"__metadata__":{"x":"y"}}`
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	out = append(out, header...)
	for i := range 3 {
		out = binary.LittleEndian.AppendUint32(out, uint32(step)*7+uint32(i))
	}
	return out
}

// sources are three files in pieces, so that there are several writes to be stopped in.
func sources(step int64) []Source {
	record, _ := Record{Step: step}.Source()
	return []Source{
		{Name: "model.safetensors", Bytes: 300, Write: func(w io.Writer) error {
			for _, b := range tensorFile(step) {
				if _, err := w.Write([]byte{b}); err != nil {
					return err
				}
			}
			return nil
		}},
		{Name: "config.json", Bytes: 3 << 20, Write: func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte{byte(step)}, 3<<20))
			return err
		}},
		record,
	}
}

func mustCommit(t *testing.T, root string, steps ...int64) Store {
	t.Helper()
	for _, s := range steps {
		require.NoError(t, Commit(newFaultFS(0, false), filepath.Join(root, DirName(s)), s, sources(s)))
	}
	return Store{FS: OS, Dir: root}
}

func requireContent(t *testing.T, found discovery) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(found.Path, "model.safetensors"))
	require.NoError(t, err)
	require.Equal(t, tensorFile(found.Step), got)
}

func TestCommitAndFind(t *testing.T) {
	root := filepath.Join(t.TempDir(), "checkpoints")
	c := Store{FS: OS, Dir: root}
	found, err := c.Newest()
	require.NoError(t, err)
	assert.Empty(t, found.Path, "nothing was ever saved")

	mustCommit(t, root, 9, 100, 20)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "step-7"), 0o777), "not a name of ours")
	steps, err := c.Steps()
	require.NoError(t, err)
	assert.Equal(t, []int64{100, 20, 9}, steps)
	found, err = c.Newest()
	require.NoError(t, err)
	assert.EqualValues(t, 100, found.Step, "the step decides, not the time")
	assert.Equal(t, filepath.Join(root, "step-00000100"), found.Path)
	assert.Empty(t, found.Rejected)
	requireContent(t, found)

	m, err := readManifest(OS, found.Path)
	require.NoError(t, err)
	assert.EqualValues(t, 100, m.Step)
	assert.Len(t, m.Files, 3)
	assert.Len(t, m.Files["model.safetensors"].Tensors, 3)
	assert.Equal(t, checksum("00000000"), m.Files["model.safetensors"].Tensors["empty"])
	assert.NotEqual(t, m.Files["model.safetensors"].Tensors["a"], m.Files["model.safetensors"].Tensors["b"])

	// The same step again takes the place of the first.
	mustCommit(t, root, 100)
	names, err := OS.ReadDir(root)
	require.NoError(t, err)
	assert.Equal(t, []string{"step-00000009", "step-00000020", "step-00000100", "step-7"}, names)
}

// A file system that loses what was not synced makes a checkpoint that skips a sync fail this test's fellow above; this is the proof.
func TestPowerLossSeesMissingSync(t *testing.T) {
	root := t.TempDir()
	f := newFaultFS(0, false)
	path := filepath.Join(root, "x")
	file, err := f.Create(path)
	require.NoError(t, err)
	_, err = file.Write([]byte("abc"))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.NoError(t, f.SyncDir(root))
	require.NoError(t, f.Rename(path, path+"2"))
	require.NoError(t, f.powerLoss())
	size, err := OS.Size(path)
	require.NoError(t, err, "the rename is undone")
	require.Zero(t, size, "the bytes are gone")
}

func TestFreeSpaceIsCheckedFirst(t *testing.T) {
	root := t.TempDir()
	f := newFaultFS(0, false)
	f.free = 1 << 20
	err := Commit(f, filepath.Join(root, DirName(20)), 20, sources(20))
	var space *SpaceError
	require.ErrorAs(t, err, &space)
	assert.EqualValues(t, 1<<20, space.Free)
	assert.Greater(t, space.Wanted, uint64(3<<20))
	assert.Contains(t, err.Error(), "1048576 bytes free")
	names, err := OS.ReadDir(root)
	require.NoError(t, err)
	assert.Empty(t, names)
}

// A file that is not the checkpoint's own would be written elsewhere, or lost: nothing is.
func TestEverySourceHasAFileOfItsOwn(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, DirName(20))
	for _, name := range []string{"../config.json", "a/b.json", "..", "", manifestName, "config.json"} {
		err := Commit(OS, path, 20, append(sources(20), TextFile(name, nil)))
		require.ErrorIs(t, err, Err, name)
		assert.ErrorContains(t, err, fmt.Sprintf("file %q", name))
		assert.Empty(t, names(t, root), name)
	}
}
