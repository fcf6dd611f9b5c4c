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
	assert.Equal(t, []int64{1, 2, 3, 4}, ReadLog(t, names...).Starts)
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
	events, cut := eventsIn(t, file.Name())
	assert.Len(t, events, 2, "how the file begins")
	assert.False(t, cut)
}
