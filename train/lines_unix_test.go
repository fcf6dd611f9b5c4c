//go:build unix

package train

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe in the place of a log is refused, and not waited for.
func TestLogRefusesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), metricsFile)
	require.NoError(t, syscall.Mkfifo(path, 0o666))
	_, err := openLines(nil, path, 0)
	require.ErrorContains(t, err, "wanted a regular file")
}
