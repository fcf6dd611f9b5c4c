//go:build unix

package tests

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run that is told to stop, by each signal and in each phase, ends with code 3, saved. The same command goes on from there, says so, and the
// end is that of a run that was left alone.
func TestSignalsStopAndSave(t *testing.T) {
	p, want := undisturbedRun(t)
	runDir := p.runDir(t, "stopped")
	expected := int64(0)
	for _, stop := range []struct {
		signal syscall.Signal
		name   string // as the program writes it
		phase  string
		wait   func(run *process)
		saves  bool
		unread bool     // Ctrl-C has ended who reads the output, too
		cut    []string // into stages, if at all: another time the run is one of other stages
	}{
		{syscall.SIGTERM, "terminated", "compiling", func(run *process) { run.says(t, "compile kernels 1/") }, false, false, nil},
		{syscall.SIGTERM, "terminated", "compiling a stage", func(run *process) { run.says(t, "compile kernels of stage 1") }, false, false, cuts[0]},
		{syscall.SIGINT, "interrupt", "stepping", func(run *process) {
			run.until(t, "steps", func() bool { return lastStep(t, runDir) > 9 })
		}, true, true, cuts[1]},
		{syscall.SIGUSR1, "user defined signal 1", "sampling", func(run *process) {
			run.says(t, ": validation loss") // the next is a sample
		}, true, false, cuts[2]},
		{syscall.SIGHUP, "hangup", "saving", func(run *process) {
			at := lastStep(t, runDir)
			// A save takes a millisecond, which a busy machine may not see; it must not be that of the end.
			run.until(t, "a save", func() bool {
				step := lastStep(t, runDir)
				return step > at && (len(unfinished(t, runDir)) > 0 || step > at+8)
			})
		}, true, false, nil},
	} {
		c, leave := p.staged("stopped", stop.cut...), func() {}
		if stop.unread {
			c.stderr, leave = readBy(t)
		}
		run := c.start(t)
		stop.wait(run)
		leave()
		require.True(t, run.running(), "%s: has ended:\n%s", stop.phase, run.err)
		require.NoError(t, run.cmd.Process.Signal(stop.signal))
		ended := run.wait(t)
		require.Equal(t, 3, ended.code, "%s: %s", stop.phase, ended.err)
		if !stop.unread {
			does := map[bool]string{false: "leaving before the first step", true: "finishing the step and saving"}[stop.saves]
			assert.Contains(t, ended.err, stop.name+": "+does)
			assert.Contains(t, ended.err, "gputrain: train: stopped: signal "+stop.name)
			requireResumed(t, ended.err, expected)
		}
		reached := newest(t, runDir)
		t.Logf("%v while %s: at step %d, from step %d", stop.signal, stop.phase, reached, expected)
		assert.Equal(t, stop.saves, reached > expected, "%s: saved", stop.phase)
		assert.Equal(t, reached, lastStep(t, runDir), "%s: what is saved is all that has been computed", stop.phase)
		assert.Empty(t, unfinished(t, runDir))
		expected = reached
	}
	ended := ok(t, p.train("stopped"))
	require.Contains(t, ended.err, "resumed from")
	requireResumed(t, ended.err, expected)
	requireSame(t, want, outcomeOf(t, runDir))
}

// readBy is where a command may write what somebody reads until they leave.
func readBy(t *testing.T) (in *os.File, leave func()) {
	t.Helper()
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return in, func() { require.NoError(t, out.Close()) }
}

// Who cannot wait for the step to end signals twice.
func TestSecondSignalLeavesAtOnce(t *testing.T) {
	p := newPlace(t)
	// A step that takes much longer than a process takes to end.
	run := p.train("run", "--set", "train.accumulate=100").start(t)
	// The metrics of a step are read while the next one is under way.
	run.until(t, "a step", func() bool { return lastStep(t, p.path("run")) > 0 })
	require.NoError(t, run.cmd.Process.Signal(syscall.SIGINT))
	run.says(t, "once more to leave at once")
	require.True(t, run.running())
	require.NoError(t, run.cmd.Process.Signal(syscall.SIGINT))
	ended := run.wait(t)
	assert.Equal(t, 1, ended.code, ended.err)
	assert.False(t, strings.Contains(ended.err, "stopped at step"), ended.err)
	assert.Zero(t, newest(t, p.path("run")), "nothing is saved")
}

// The time that a run may take is counted from the start of the command: one that has passed while files and devices are opened ends it there.
func TestTimeLimitOfTheCommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.train("run", "--set", "train.time_limit=0.001s").run(t)
	assert.Equal(t, 3, r.code, r.err)
	assert.Contains(t, r.err, "time limit of 1ms")
	assert.NotContains(t, r.err, "adapter", "the run itself did not begin")
}
