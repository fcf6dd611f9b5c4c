//go:build unix

package tests

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// A pipelined run that is told to stop ends with code 3, saved, while it compiles as well as in the middle of its steps, and goes on exactly in
// other stages.
func TestSignalsStopAndSavePipelines(t *testing.T) {
	gputest.Long(t, "TestSignalsStopAndSave stops a run, TestPipelineKilledAndResumedInOtherStages has stages")
	p, want := undisturbedRun(t)
	runDir := p.runDir(t, "stages stopped")
	expected := int64(0)
	for i, stop := range []struct {
		signal syscall.Signal
		phase  string
		wait   func(run *process)
	}{
		{syscall.SIGTERM, "compiling", func(run *process) { run.says(t, "compile kernels of stage 1") }},
		{syscall.SIGINT, "stepping", func(run *process) { run.until(t, "steps", func() bool { return lastStep(t, runDir) > 9 }) }},
		{syscall.SIGTERM, "evaluating", func(run *process) { run.says(t, ": validation loss") }},
	} {
		run := p.staged("stages stopped", cuts[i]...).start(t)
		stop.wait(run)
		require.True(t, run.running(), "%s: has ended:\n%s", stop.phase, run.err)
		require.NoError(t, run.cmd.Process.Signal(stop.signal))
		ended := run.wait(t)
		require.Equal(t, 3, ended.code, "%s: %s", stop.phase, ended.err)
		assert.Contains(t, ended.err, "gputrain: train: stopped: signal ")
		requireResumed(t, ended.err, expected)
		reached := newest(t, runDir)
		t.Logf("%v while %s in %v: at step %d, from step %d", stop.signal, stop.phase, cuts[i], reached, expected)
		assert.Equal(t, reached, lastStep(t, runDir), "%s: what is saved is all that has been computed", stop.phase)
		assert.Empty(t, unfinished(t, runDir))
		if i > 0 {
			assert.Greater(t, reached, expected, stop.phase)
		}
		expected = reached
	}
	ended := ok(t, p.staged("stages stopped", cuts[3]...))
	requireResumed(t, ended.err, expected)
	requireSame(t, want, outcomeOf(t, runDir))
}
