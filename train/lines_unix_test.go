//go:build unix

package train

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipe in the place of a log is refused, and not waited for.
func TestLogRefusesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), metricsFile)
	require.NoError(t, syscall.Mkfifo(path, 0o666))
	_, err := openLines(nil, path, 0)
	require.ErrorContains(t, err, "wanted a regular file")
}

// The directory of a run may be anybody's: a pipe in it is not waited for, a device has no end, and a link of the name that files have while they are
// written has nothing written to what it leads to.
func TestRunDirectoryOfAStranger(t *testing.T) {
	for name, of := range map[string]func(dir string) error{
		markerFile:   take,
		runFile:      func(dir string) error { _, err := storedSettings(dir); return err },
		sessionsFile: func(dir string) error { _, err := readRegular(filepath.Join(dir, sessionsFile)); return err },
	} {
		dir := t.TempDir()
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, name), 0o666))
		require.ErrorContains(t, of(dir), "wanted a regular file", name)
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, name)))
		require.ErrorContains(t, of(dir), "wanted a regular file", name)
	}
	dir, mine := t.TempDir(), filepath.Join(t.TempDir(), "mine")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o666))
	require.NoError(t, os.Symlink(mine, filepath.Join(dir, temporaryFile)))
	require.NoError(t, take(dir))
	text, err := os.ReadFile(mine)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(text))
	marker, err := os.Lstat(filepath.Join(dir, markerFile))
	require.NoError(t, err)
	assert.True(t, marker.Mode().IsRegular(), "%v", marker.Mode())
}
