//go:build unix

package serve

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipe in one run directory is told, and keeps neither that run nor the others from being shown.
func TestPipesAreNotWaitedFor(t *testing.T) {
	for _, name := range []string{settingsFile, samplesFile, rolloutsFile, histogramsFile, sessionsFile, reportFile} {
		root := t.TempDir()
		dir := filepath.Join(root, "a")
		writeRun(t, dir, 20, 7)
		_ = os.Remove(filepath.Join(dir, name))
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, name), 0o666))
		writeRun(t, filepath.Join(root, "b"), 20, 7)
		s := open(t, root)
		code, runs := get(t, s, "/api/runs")
		require.Equal(t, 200, code)
		_, detail := get(t, s, "/api/run?run=0")
		assert.Contains(t, runs+detail, "wanted a regular file", name)
		code, _ = get(t, s, "/api/curves?run=1")
		assert.Equal(t, 200, code)
	}
}
