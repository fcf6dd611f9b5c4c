package tensorboard

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Names sort in the order in which files were begun, also within a second, and behind those of a clock that was ahead. Readers of a
// directory go by that.
func TestNamesSortInTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a*[b]", "tensorboard")
	names, err := Files(dir)
	require.NoError(t, err)
	assert.Empty(t, names)
	ahead := fmt.Sprintf("events.out.tfevents.%d.another.host.1", time.Now().Unix()+3600)
	for i := range 4 {
		w, err := Create(dir, int64(i+1))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		if i == 1 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, ahead), nil, 0o666))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o666))
	names, err = Files(dir)
	require.NoError(t, err)
	require.Len(t, names, 5)
	assert.Equal(t, ahead, filepath.Base(names[2]))
	log, err := ReadLog(names...)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2, 3, 4}, log.Starts)
}

// A file with a record that is wrong is refused; one that ends within a record is read as far as it goes.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, 1)
	require.NoError(t, err)
	for step := range 3 {
		require.NoError(t, w.Write(Event{Step: int64(step), Values: []Value{{Tag: "a", Kind: Scalar, Scalar: 1}}}))
	}
	require.NoError(t, w.Close())
	names, err := Files(dir)
	require.NoError(t, err)
	whole, err := os.ReadFile(names[0])
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(names[0], whole[:len(whole)-1], 0o666))
	log, err := ReadLog(names...)
	require.NoError(t, err)
	assert.Len(t, log.Series["a"], 2)
	assert.Equal(t, names, log.Cut)

	whole[len(whole)-5] ^= 1
	require.NoError(t, os.WriteFile(names[0], whole, 0o666))
	_, err = ReadLog(names...)
	assert.ErrorContains(t, err, names[0])
	assert.ErrorContains(t, err, "record at byte")
	require.NoError(t, os.WriteFile(names[0], appendRecord(nil, []byte("\x09\x00")), 0o666))
	_, err = ReadLog(names...)
	assert.ErrorContains(t, err, "event: field 1: unexpected EOF", "a record that is whole, with a message that is not")
	_, err = ReadLog(filepath.Join(dir, "absent"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// What follows half a record could not be read, so nothing does.
func TestNothingIsWrittenAfterAnError(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, 1)
	require.NoError(t, err)
	file := w.file
	closed, err := os.Create(filepath.Join(dir, "closed"))
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	w.file = closed
	failed := w.Write(Event{Step: 1})
	require.ErrorIs(t, failed, os.ErrClosed)
	w.file = file
	assert.Equal(t, failed, w.Write(Event{Step: 2}))
	require.NoError(t, w.Close())
	steps := 0
	for e, err := range EventsOf(file.Name()) {
		require.NoError(t, err)
		steps++
		assert.LessOrEqual(t, e.Step, int64(1))
	}
	assert.Equal(t, 2, steps)
}
