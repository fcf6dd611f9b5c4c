package tests

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state/checkpoint"
)

// Batches are made ahead in the background: a run of two steps reads many batches more where data.prefetch says so. What has been read of
// files is the kernel's to tell.
func TestPrefetchReadsAhead(t *testing.T) {
	gputest.Long(t, "data.TestStallsWaitAndErrorsStay")
	if _, err := os.Stat("/proc/self/io"); err != nil {
		t.Skip("no /proc/self/io")
	}
	p := newPlace(t)
	p.write(t, "keys.yaml", keysRun)
	// A large file stays on the disk. One of zeros takes no room there.
	p.write(t, "tokens.u16", "")
	require.NoError(t, os.Truncate(p.path("tokens.u16"), 64<<20))
	// read is the most that a process has been seen to have read.
	read := func(prefetch int) int {
		most := 0
		c := p.command("train", "keys.yaml", "--run-dir", fmt.Sprint(prefetch), "--progress", "plain", "--set", "train.steps=2", "--set", "train.batch=64",
			"--set", "data.text=tokens.u16", "--set", "data.tokens=u16", "--set", "model.vocab=1000", "--set", fmt.Sprintf("data.prefetch=%d", prefetch))
		run := c.start(t)
		run.until(t, "its end", func() bool {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", run.cmd.Process.Pid))
			if m := regexp.MustCompile(`rchar: (\d+)`).FindSubmatch(raw); err == nil && m != nil {
				most = max(most, int(number(t, string(m[1]))))
			}
			return false
		})
		require.Zero(t, run.wait(t).code, run.err)
		return most
	}
	const batch = 64 * 17 * 2 // bytes: windows of 16 tokens and what comes behind them
	none, many := read(0), read(1000)
	// Half of the thousand: caches of shaders are read too, and the process may end after it was last looked at.
	assert.Greater(t, many-none, 500*batch, "read %d and %d bytes", none, many)
}

// With train.save_async training goes on while a checkpoint is written: lines of later steps are there before it is. Without, never. A save is
// made durable file by file, for which a disk takes as long as for several steps of a small model.
func TestSavingBesideAndInBetween(t *testing.T) {
	gputest.Long(t, "train.TestStepsGoOnWhileACheckpointIsWritten")
	p := newPlace(t)
	p.write(t, "keys.yaml", keysRun)
	const every, steps = 4, 160
	for _, async := range []bool{true, false} {
		name := fmt.Sprint(async)
		c := p.command("train", "keys.yaml", "--run-dir", name, "--progress", "plain", "--set", "data.text=text.txt", "--set", "train.keep=100",
			"--set", fmt.Sprintf("train.steps=%d", steps), "--set", fmt.Sprintf("train.save_every=%d", every), "--set", "train.save_async="+name)
		run, beside := c.start(t), map[int64]bool{}
		run.until(t, "its end", func() bool {
			if saved := (lastStep(t, p.path(name)) - 1) / every * every; saved > 0 {
				if _, err := os.Stat(p.path(name, "checkpoints", checkpoint.DirName(saved))); err != nil {
					beside[saved] = true
				}
			}
			return false
		})
		require.Zero(t, run.wait(t).code, run.err)
		t.Logf("save_async %s: %d of %d checkpoints were there only after later steps", name, len(beside), steps/every)
		// A checkpoint is some ten files, each made durable.
		if async && 10*timeOfSync(t, p.path("sync")) < timeOfStep(t, p.path(name)) {
			t.Log("this disk is done before a step is: see train.TestStepsGoOnWhileACheckpointIsWritten")
		} else if async {
			assert.NotEmpty(t, beside, "no step was made while a checkpoint was written")
		} else {
			assert.Empty(t, beside, "steps were made before the checkpoint of an earlier one was there")
		}
	}
}

// timeOfStep is how long the quickest step of a run took.
func timeOfStep(t *testing.T, runDir string) time.Duration {
	t.Helper()
	quickest := math.Inf(1)
	for _, m := range metricsOf(t, runDir) {
		if ms, ok := m["step_ms"].(float64); ok { // no line of an evaluation
			quickest = min(quickest, ms)
		}
	}
	return time.Duration(quickest * float64(time.Millisecond))
}

// timeOfSync is how long the disk takes to make a small file durable.
func timeOfSync(t *testing.T, path string) time.Duration {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	begin := time.Now()
	for range 8 {
		_, err = f.WriteString("a little")
		require.NoError(t, err)
		require.NoError(t, f.Sync())
	}
	return time.Since(begin) / 8
}
