//go:build unix

package stranger

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file is opened itself, or made at its path: where a link leads nothing is opened or made.
func TestOpenFile(t *testing.T) {
	dir := place(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("file"), "text")
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o666))
	require.NoError(t, os.Mkdir(at("directory"), 0o777))
	for name, to := range map[string]string{"inside": "file", "outside": "../secret", "dangling": "../absent", "to pipe": "pipe"} {
		require.NoError(t, os.Symlink(to, at(name)))
	}
	for name, says := range map[string]string{
		"inside": "found a link, wanted a regular file", "outside": "found a link", "dangling": "found a link", "to pipe": "found a link", "pipe": "found a pipe",
		"directory": "found a directory",
	} {
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR | os.O_CREATE, os.O_WRONLY | os.O_CREATE | os.O_APPEND} {
			_, err := OpenFile(at(name), flag)
			assert.ErrorContains(t, err, `"`+at(name)+`": `+says)
		}
	}
	assert.NoFileExists(t, at("../absent"))
	_, err := OpenFile(at("new"), os.O_WRONLY)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, name := range []string{"file", "new"} {
		f, err := OpenFile(at(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
		require.NoError(t, err)
		_, err = f.WriteString(" more")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	raw, err := os.ReadFile(at("file"))
	require.NoError(t, err)
	assert.Equal(t, "text more", string(raw))
}
