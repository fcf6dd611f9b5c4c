package tests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gputrain/internal/gputest"
	"gputrain/internal/system"
)

// mountSmall puts a file system of its own on dir, where the machine lets us.
func mountSmall(t *testing.T, dir, size string) bool {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Logf("no file system to mount: %v", err)
		return false
	}
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	return true
}

// fill takes what is free below dir but for the logs' growth: less than a checkpoint.
func fill(t *testing.T, dir string) {
	t.Helper()
	const left = 200 << 10
	free, err := system.Free(dir)
	require.NoError(t, err)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	n, err := filler.Write(make([]byte, free-left))
	if system.Full(err) { // a checkpoint has taken some of it since
		err = filler.Truncate(int64(max(0, n-left)))
	}
	require.NoError(t, errors.Join(err, filler.Close()))
}

func resize(t *testing.T, dir, size string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size="+size))
}

// readOnly makes dir a file system that cannot be written to.
func readOnly(t *testing.T, dir string) bool {
	t.Helper()
	if !mountSmall(t, dir, "1m") {
		return false
	}
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return true
}

// filledUp is the end of a run whose disk fills up after two checkpoints, and the newest of these.
func filledUp(t *testing.T, c command, runDir string) (r ended, reached int64) {
	t.Helper()
	run := c.start(t)
	require.True(t, run.until(t, "two checkpoints", func() bool { return newest(t, runDir) >= 2*saveEvery }))
	fill(t, runDir)
	r, reached = run.wait(t), newest(t, runDir)
	fullDisk(t, runDir, r, reached, "bytes free on the disk")
	return r, reached
}

// A disk that fills up: a checkpoint takes some 430 KB, and two are kept while the third is written.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "checkpoint.TestSaverStoppedAtAnyCall, train.TestFullDisk")
	p, want := undisturbedRun(t)
	runDir := p.runDir(t, "full")
	require.NoError(t, os.Mkdir(runDir, 0o777))
	if !mountSmall(t, runDir, "200k") {
		t.Skip("skipped, needs a small file system")
	}
	r := p.train("full").run(t)
	require.Equal(t, 6, r.code, r.err)
	assert.Regexp(t, `\d+ bytes wanted, \d+ bytes free on the disk`, r.err)
	assert.Zero(t, lastStep(t, runDir), "refused before the first step")

	// Room for two is not room for the two that are kept, the best and the one being written.
	resize(t, runDir, "1200k")
	r = p.train("full").run(t)
	require.Equal(t, 6, r.code, r.err)
	assert.Contains(t, r.err, "train.keep 2, train.keep_best 1, and the one being written")
	assert.Zero(t, newest(t, runDir), "refused before the first step")

	// Another program takes the room of the next checkpoint.
	resize(t, runDir, "64m")
	r, reached := filledUp(t, p.train("full"), runDir)
	assert.Contains(t, r.err, "lower train.keep, or give --run-dir on another disk")
	// Again, and it is as full as before.
	r = p.train("full").run(t)
	require.Equal(t, 6, r.code, r.err)
	require.Equal(t, reached, newest(t, runDir))
	require.NoError(t, os.Remove(filepath.Join(runDir, "filler")))

	// Another program takes all that is left, the blocks of the logs too.
	resize(t, runDir, "64m")
	run := p.train("full").start(t)
	run.until(t, "more checkpoints", func() bool { return newest(t, runDir) > reached && lastStep(t, runDir) > 5*saveEvery })
	run.until(t, "fewer checkpoints than the new size has room for", func() bool {
		return unix.Mount("tmpfs", runDir, "tmpfs", unix.MS_REMOUNT, "size=1300k") == nil
	})
	other, err := os.Create(filepath.Join(runDir, "other"))
	require.NoError(t, err)
	_, err = other.Write(make([]byte, 2<<20))
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, other.Close())
	r = run.wait(t)
	assert.Equal(t, 6, r.code, r.err)
	whole := newest(t, runDir)
	assert.Greater(t, whole, int64(3*saveEvery))

	require.NoError(t, os.Remove(other.Name()))
	resize(t, runDir, "64m")
	r = ok(t, p.train("full"))
	requireResumed(t, r.err, whole)
	requireSame(t, want, outcomeOf(t, runDir))
}

// onRanksThatOnlyRead is a command on two ranks, of which rank 1 finds dir on a file system that cannot be written to.
func (c command) onRanksThatOnlyRead(t *testing.T, dir string) command {
	t.Helper()
	for _, needs := range []string{"unshare", "mount"} {
		if _, err := exec.LookPath(needs); err != nil {
			t.Skipf("skipped, needs %s: %v", needs, err)
		}
	}
	const readOnly = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && ! touch "$0/written" && exec "$@"`
	on := c.onRanks(t, 1)
	on.args = slices.Concat(on.args, []string{":", "-n", "1", "unshare", "--mount", "sh", "-c", readOnly, dir, c.program}, c.args)
	return on
}

// A disk that fills up ends all ranks by one line, with rank 0's code, and the same command goes on once there is space. Of a run directory rank 0 writes every
// file: another rank may find it on a disk that it cannot write to, so there is no other whose disk could be full.
func TestDiskOfRanksFillsUp(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "checkpoint.TestSaverStoppedAtAnyCall, train.TestFullDisk")
	p, want := undisturbedRun(t)
	runDir := p.runDir(t, "ranks' full")
	require.NoError(t, os.Mkdir(runDir, 0o777))
	if !mountSmall(t, runDir, "64m") {
		t.Skip("skipped, needs a small file system")
	}
	ranks := p.train(runDir).onRanksThatOnlyRead(t, runDir)
	r, reached := filledUp(t, ranks, runDir)
	assert.Equal(t, 1, strings.Count(r.err, "gputrain: "), r.err)

	require.NoError(t, os.Remove(filepath.Join(runDir, "filler")))
	r = ok(t, ranks)
	requireResumed(t, r.err, reached)
	requireSame(t, want, outcomeOf(t, runDir))
}
