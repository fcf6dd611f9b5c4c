package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Batches are made ahead in the background: a run of two steps reads many batches more where data.prefetch says so. What has been read of
// files is the kernel's to tell.
func TestPrefetchReadsAhead(t *testing.T) {
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
	assert.Greater(t, many-none, 900*batch, "read %d and %d bytes", none, many)
}

// With train.save_async training goes on while a checkpoint is written: lines of later steps are there before it is. Without, never.
func TestSavingBesideAndInBetween(t *testing.T) {
	p := newPlace(t)
	p.write(t, "keys.yaml", keysRun)
	for _, async := range []bool{true, false} {
		// 12 MB a checkpoint, of which a step reads little.
		c := p.command("train", "keys.yaml", "--run-dir", fmt.Sprint(async), "--progress", "plain", "--set", "train.steps=21", "--set", "train.batch=1", "--set", "model.vocab=65536", "--set", "model.context=4",
			"--set", "data.text=text.txt", "--set", "train.save_every=4", "--set", "train.keep=100", "--set", fmt.Sprintf("train.save_async=%v", async))
		run, beside := c.start(t), 0
		run.until(t, "its end", func() bool {
			last := lastStep(t, p.path(fmt.Sprint(async)))
			if saved := (last - 1) / 4 * 4; saved > 0 {
				if _, err := os.Stat(filepath.Join(p.path(fmt.Sprint(async)), "checkpoints", fmt.Sprintf("step-%08d", saved))); err != nil {
					beside++
				}
			}
			return false
		})
		require.Zero(t, run.wait(t).code, run.err)
		if async {
			assert.Positive(t, beside, "no step was made while a checkpoint was written")
		} else {
			assert.Zero(t, beside, "a step was made before the checkpoint of an earlier one was there")
		}
	}
}
