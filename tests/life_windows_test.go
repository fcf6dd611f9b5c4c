package tests

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"gputrain/internal/system"
)

// A run that a console's keys stop ends with code 3, saved, and goes on to the bits of a run that was left alone.
func TestConsoleStopsAndSaves(t *testing.T) {
	p, want := undisturbedRun(t)
	runDir := p.runDir(t, "stopped")
	kernel32 := windows.NewLazySystemDLL("kernel32.dll")
	for _, name := range []string{"FreeConsole", "AllocConsole"} { // a console of this test's and its runs'
		done, _, err := kernel32.NewProc(name).Call()
		require.NotZero(t, done, "%s: %v", name, err)
	}
	own := make(chan os.Signal, 8)
	signal.Notify(own, os.Interrupt) // the keys reach all processes of a console
	defer signal.Stop(own)
	expected := int64(0)
	for _, key := range []struct {
		name  string
		event uint32
	}{{"Ctrl-C", windows.CTRL_C_EVENT}, {"Ctrl-Break", windows.CTRL_BREAK_EVENT}} {
		run := p.train("stopped").start(t)
		run.until(t, "steps", func() bool { return lastStep(t, runDir) > expected+5 })
		require.True(t, run.running(), "%s: has ended:\n%s", key.name, run.err)
		if err := windows.GenerateConsoleCtrlEvent(key.event, 0); key.event == windows.CTRL_BREAK_EVENT && errors.Is(err, windows.ERROR_INVALID_HANDLE) {
			t.Logf("%s cannot be sent: this is wine", key.name)
			require.NoError(t, run.cmd.Process.Kill())
			run.wait(t)
			expected = newest(t, runDir)
			continue
		} else {
			require.NoError(t, err)
		}
		ended := run.wait(t)
		require.Equal(t, 3, ended.code, "%s: %s", key.name, ended.err)
		assert.Contains(t, ended.err, "interrupt: finishing the step and saving", key.name)
		requireResumed(t, ended.err, expected)
		reached := newest(t, runDir)
		assert.Greater(t, reached, expected, key.name)
		assert.Equal(t, reached, lastStep(t, runDir), "%s: what is saved is all that has been computed", key.name)
		expected = reached
	}
	ended := ok(t, p.train("stopped"))
	requireResumed(t, ended.err, expected)
	requireSame(t, want, outcomeOf(t, runDir))
}

// short is a run of a few steps.
func short(p *place, args ...string) command {
	return p.command(append([]string{"train", "--progress", "plain", "--set", "train.steps=6", "--set", "train.eval_every=0"}, args...)...)
}

// Paths are taken however Windows writes them: with backslashes or slashes, from the drive or from here, in either case, with spaces and letters of all
// scripts, and longer than the 260 characters of old.
func TestPathsOfWindows(t *testing.T) {
	p := newPlace(t)
	adapter(t)
	long := strings.Repeat("a long name ", 8) + "x"
	dir := filepath.Join(p.dir, "with spaces", "Übungsläufe 学習 учёба", long, long, long)
	require.Greater(t, len(dir), 300)
	require.NoError(t, os.MkdirAll(dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "my run.yaml"), []byte(strings.Replace(tinyRun, "text.txt", "'*.txt'", 1)), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Text für uns.txt"), []byte(lines(400)), 0o666))
	runFile, runDir := filepath.Join(dir, "my run.yaml"), filepath.Join(dir, "run 1")
	require.Equal(t, ":", p.dir[1:2], "a drive")
	ok(t, short(p, runFile, "--run-dir", runDir))
	assert.Equal(t, int64(6), newest(t, runDir))
	resumed := ok(t, short(p, filepath.ToSlash(strings.ToLower(runFile[:1])+runFile[1:]), "--run-dir", filepath.ToSlash(runDir)))
	assert.Contains(t, resumed.err, "resumed from", "the same run by another writing of its path")

	require.NoError(t, os.CopyFS(p.path("nested"), os.DirFS(runDir)))
	relative := ok(t, p.command("sample", `.\nested`, "--tokens", "8", "--seed", "1"))
	assert.Equal(t, relative.out, ok(t, p.command("sample", runDir, "--tokens", "8", "--seed", "1")).out)
	assert.Contains(t, p.command("train", `no such\run.yaml`).withoutAdapter().run(t).err, `no such\run.yaml`)
}

// A second process is refused the directory of a run, which does not notice.
func TestSecondProcessOnWindows(t *testing.T) {
	p := newPlace(t)
	run := p.train("run").start(t)
	run.until(t, "a step", func() bool { return lastStep(t, p.path("run")) > 0 })
	refused := p.train("run").run(t)
	require.True(t, run.running(), run.err)
	assert.Equal(t, 2, refused.code, refused.err)
	assert.Contains(t, refused.err, "another process is training in it")
	assert.Zero(t, run.wait(t).code, run.err)
}

// Programs that look into new files, such as virus scanners, keep them from being renamed and removed for a while: the run waits for them.
func TestHeldFiles(t *testing.T) {
	p, want := undisturbedRun(t)
	runDir := p.runDir(t, "held")
	run := p.train("held").start(t)
	over := make(chan struct{})
	held := 0
	go func() {
		defer close(over)
		for run.running() {
			found, _ := filepath.Glob(filepath.Join(runDir, "checkpoints", "*", "*.safetensors"))
			for _, path := range found {
				if f, err := holdOpen(path); err == nil {
					held++
					time.Sleep(20 * time.Millisecond)
					_ = f.Close()
				}
			}
		}
	}()
	ended := run.wait(t)
	<-over
	require.Zero(t, ended.code, ended.err)
	t.Logf("held %d files", held)
	assert.Greater(t, held, 10)
	assert.Empty(t, unfinished(t, runDir))
	requireSame(t, want, outcomeOf(t, runDir))
	found, err := os.ReadDir(filepath.Join(runDir, "checkpoints"))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(found), 3, "old checkpoints are removed")
}

// holdOpen opens a file so that nobody may write, rename or remove it.
func holdOpen(path string) (io.Closer, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ, syscall.FILE_SHARE_READ, nil, syscall.OPEN_EXISTING, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), path), nil
}

// A wrong command line, a missing file and a run that is stopped have the codes that they have elsewhere.
func TestExitCodesOnWindows(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct {
		code int
		args []string
	}{
		{0, []string{"version"}},
		{2, []string{"train", "--no-such-option"}},
		{2, []string{"train", "no.yaml"}},
		{2, []string{"train", "run.yaml", "--adapter", "no such adapter"}},
	} {
		assert.Equal(t, c.code, p.command(c.args...).withoutAdapter().run(t).code, "%v", c.args)
	}
	assert.Equal(t, 3, p.train("late", "--set", "train.time_limit=0.001s").run(t).code)
	// Without a console there are no colours.
	r := p.command("devices").run(t)
	assert.NotContains(t, r.out+r.err, "\x1b")
	assert.Positive(t, system.TotalMemory())
}
