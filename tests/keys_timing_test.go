package tests

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
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
