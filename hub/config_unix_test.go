//go:build unix

package hub

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe to which nobody writes is refused, and not waited for.
func TestConfigRefusesAPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "config.json"), 0o666))
	_, err := ReadConfig(dir)
	require.ErrorContains(t, err, "wanted a regular file")
}
