//go:build unix

package train

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The directory of a run may be anybody's: a pipe in it is not waited for, and a device has no end.
func TestRunDirectoryOfAStranger(t *testing.T) {
	for name, of := range map[string]func(dir string) error{
		markerFile:  take,
		runFile:     func(dir string) error { _, err := readEarlier(dir); return err },
		metricsFile: func(dir string) error { _, _, _, err := readMetrics(filepath.Join(dir, metricsFile)); return err },
		samplesFile: func(dir string) error { _, err := openLines(nil, filepath.Join(dir, samplesFile), 0); return err },
	} {
		dir := t.TempDir()
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, name), 0o666))
		require.ErrorContains(t, of(dir), "wanted a regular file", name)
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, name)))
		require.ErrorContains(t, of(dir), "wanted a regular file", name)
	}
}

// A link under the name of a file that a run writes is refused, whether the run begins or resumes: nothing is made or changed where it leads.
func TestRunDirectoryWithLinks(t *testing.T) {
	log := `{"step":1,"loss":2,"grad_norm":3,"prompt":"","text":"","name":"w","counts":[],"time":"","adapter":""}` + "\n"
	for _, resumes := range []bool{false, true} {
		for _, name := range []string{
			".lock", metricsFile, samplesFile, histogramsFile, sessionsFile, metricsFile + cutSuffix, samplesFile + cutSuffix, histogramsFile + cutSuffix,
		} {
			dir, outside := t.TempDir(), t.TempDir()
			mine, absent := filepath.Join(outside, "mine"), filepath.Join(outside, "absent")
			require.NoError(t, os.WriteFile(mine, []byte(log), 0o666))
			for _, to := range []string{mine, absent} {
				if resumes {
					require.NoError(t, take(dir))
				}
				path := filepath.Join(dir, name)
				require.NoError(t, os.RemoveAll(path))
				require.NoError(t, os.Symlink(to, path))
				err := take(dir)
				if before, cut := strings.CutSuffix(path, cutSuffix); err == nil && cut {
					require.NoError(t, os.WriteFile(before, []byte(log), 0o666))
					path = before
				}
				if err == nil && name != sessionsFile { // which is replaced
					_, err = openLines(nil, path, 0)
				}
				if name != sessionsFile || !resumes {
					assert.ErrorContains(t, err, name)
				}
				require.NoError(t, os.Remove(filepath.Join(dir, name)))
			}
			entries, err := os.ReadDir(outside)
			require.NoError(t, err)
			assert.Len(t, entries, 1, "%s: %v", name, resumes)
			text := textAt(t, mine)
			assert.Equal(t, log, text, "%s: %v", name, resumes)
		}
	}
}
