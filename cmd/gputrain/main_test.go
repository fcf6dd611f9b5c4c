package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/terminal"
	"gputrain/run/setup"
)

// A bug of ours has a code of its own, few words, and a file with what is needed to find it.
func TestBugs(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	assert.Equal(t, 8, bug(&out, dir, errors.New("index out of range [3]"), []byte("goroutine 1 [running]:\n")))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	assert.Equal(t, "index out of range [3]\n\ngoroutine 1 [running]:\n", string(text))
	assert.Contains(t, out.String(), "gputrain: a bug of gputrain: index out of range [3]\n")
	assert.Contains(t, out.String(), files[0])
	assert.NotContains(t, out.String(), "goroutine")

	out.Reset()
	bug(&out, filepath.Join(dir, "absent"), "x", []byte("goroutine 1"))
	assert.Contains(t, out.String(), "goroutine 1", "where no file can be written")
}

// An error may say what a stranger's file says: of that a terminal is told nothing, and not more than it can show.
func TestErrorsTellATerminalNothing(t *testing.T) {
	var out bytes.Buffer
	was := told
	told = terminal.Writer{To: &out}
	defer func() { told = was }()
	tell(errors.New("model: config: \x1b]0;PWN\a"))
	assert.Equal(t, "gputrain: model: config: \\x1b]0;PWN\\a\n", out.String())
	out.Reset()
	tell(errors.New(strings.Repeat("\x1b", 3_400_000)))
	assert.LessOrEqual(t, out.Len(), terminal.Most+1)
	assert.NotContains(t, out.String(), "\x1b")
}

// What does not fit the machine is refused before it is taken.
func TestSizesAreCheckedBeforeTheyAreTaken(t *testing.T) {
	if _, known := gpu.MachineMemory(); known {
		err := setup.FitsMachine("batches", 1e9, 1e9, 1024)
		require.ErrorIs(t, err, gpu.ErrOutOfMemory)
		assert.Equal(t, 5, exitCode(err))
	}
	require.NoError(t, setup.FitsMachine("batches", 4, 8, 128))
	for _, c := range []evalCmd{{Batch: 0}, {Batch: 1, Limit: -1}} {
		assert.Equal(t, 2, exitCode(c.Run(t.Context())))
	}
}
