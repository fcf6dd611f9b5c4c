//go:build unix

package tests

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// fullDisk asserts that a run ended because a checkpoint could not be written, which is said with its name, and that the older one, of step
// whole, is left for later.
func fullDisk(t *testing.T, runDir string, r ended, whole int64, why string) {
	t.Helper()
	require.Equal(t, 6, r.code, r.err)
	assert.Contains(t, r.err, `gputrain: checkpoint: save "`+runDir+`/checkpoints/step-`)
	assert.Contains(t, r.err, why)
	assert.NotContains(t, r.err, "goroutine ")
	require.Equal(t, whole, newest(t, runDir))
	assert.Empty(t, unfinished(t, runDir), "what was half written is removed again")
}

// limited is the command with files limited to 80 KiB (where the shell counts in blocks of 1024 bytes: 160), which is less than the weights
// take and more than the logs: the file system refuses the bytes beyond, half way through a file, as a full disk does.
func (c command) limited(t *testing.T) command {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	return c.with(func(c *command) {
		c.args = append([]string{"-c", `ulimit -f 160 && exec "$0" "$@"`, c.program}, c.args...)
		c.program = sh
	})
}

// The file system refuses in the middle of a checkpoint. Needs no privilege.
func TestDiskRefusesHalfACheckpoint(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "checkpoint.TestSaverStoppedAtAnyCall, train.TestFullDisk")
	p, want := undisturbedRun(t)
	runDir := p.runDir(t, "limited")
	r := p.train("limited").limited(t).run(t)
	fullDisk(t, runDir, r, 0, "file too large")

	// Now with an older checkpoint.
	run := p.train("limited").start(t)
	require.True(t, run.until(t, "a checkpoint", func() bool { return newest(t, runDir) > 0 }))
	require.NoError(t, run.cmd.Process.Kill())
	run.wait(t)
	whole := newest(t, runDir)
	r = p.train("limited").limited(t).run(t)
	fullDisk(t, runDir, r, whole, "file too large")

	r = ok(t, p.train("limited"))
	requireResumed(t, r.err, whole)
	requireSame(t, want, outcomeOf(t, runDir))
}

// A run directory that cannot be written to.
func TestReadOnlyRunDirectory(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	require.NoError(t, os.Mkdir(p.path("run"), 0o777))
	why := "read-only file system"
	if !readOnly(t, p.path("run")) {
		why = "permission denied"
		require.NoError(t, os.Chmod(p.path("run"), 0o555))
		if os.WriteFile(p.path("run", "probe"), nil, 0o666) == nil {
			t.Skip("skipped, this user may write everywhere, and may not mount")
		}
	}
	r := p.train("run").run(t)
	assert.Equal(t, 1, r.code, r.err)
	assert.Contains(t, r.err, "train: run directory")
	assert.Contains(t, r.err, p.path("run"))
	assert.Contains(t, r.err, why)
	assert.NotContains(t, r.err, "compile kernels", "said before the work begins")
	said := strings.Split(strings.TrimSpace(r.err), "\n")
	assert.Len(t, said, 2, "what it is about to do, and what is wrong: %s", r.err)
	assert.Equal(t, "preparing the run in "+p.path("run"), said[0])
}
