package system

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tempDir is t.TempDir, but removed by RemoveAll.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gputrain-system-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, RemoveAll(dir)) })
	return dir
}

// A lock is one process's or, if it is shared, its readers', until its file is closed.
func TestLock(t *testing.T) {
	path := filepath.Join(tempDir(t), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	if err := Lock(first, true); errors.Is(err, ErrNoLocks) {
		t.Skip(err)
	} else {
		require.NoError(t, err)
	}
	require.ErrorIs(t, Lock(second, true), ErrLocked)
	require.ErrorIs(t, Lock(second, false), ErrLocked)
	require.NoError(t, first.Close())
	require.NoError(t, Lock(second, false))
	require.NoError(t, Lock(open(), false))
	require.ErrorIs(t, Lock(open(), true), ErrLocked)
}

// A directory that cannot be made as a link leads nowhere is told as that.
func TestMkdirAll(t *testing.T) {
	dir := tempDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, MkdirAll(at("a/b")))
	require.NoError(t, MkdirAll(at("a/b")))
	if runtime.GOOS == "windows" {
		t.Skip("links are made by administrators alone")
	}
	require.NoError(t, os.Symlink("none", at("link")))
	for _, below := range []string{"link", "link/c"} {
		err := MkdirAll(at(below))
		require.ErrorIs(t, err, fs.ErrExist)
		require.ErrorContains(t, err, at("link")+": found a link that leads nowhere")
	}
	assert.NoDirExists(t, at("none"))
}
