package train

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// Each process that makes steps says where it went on, also where the one before it was killed in the middle of a line.
func TestSessions(t *testing.T) {
	dev, dir, begin := gputest.Device(t), t.TempDir(), time.Now()
	path := filepath.Join(dir, sessionsFile)
	for _, stop := range []int64{2, 7} {
		c := tinyRun(t, dir)
		ctx, hook := stopAt(StepEnd, stop)
		c.Hooks = []Hook{hook}
		_, err := Run(ctx, dev, c)
		require.ErrorIs(t, err, ErrStopped)
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(`{"step":`)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	for range 2 { // the second has nothing to do
		_, err := Run(t.Context(), dev, tinyRun(t, dir))
		require.NoError(t, err)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var steps []int64
	for line := range strings.Lines(string(text)) {
		var s session
		require.NoError(t, json.Unmarshal([]byte(line), &s), line)
		steps = append(steps, s.Step)
		assert.WithinRange(t, s.Time, begin.Add(-time.Second), time.Now(), "in whole seconds")
		assert.Contains(t, s.Adapter, dev.Adapter().Name)
	}
	assert.Equal(t, []int64{0, 2, 7}, steps)
	c := tinyRun(t, dir)
	c.Fresh = true
	ctx, hook := stopAt(Started, 0)
	c.Hooks = []Hook{hook}
	_, err = Run(ctx, dev, c)
	require.ErrorIs(t, err, ErrStopped)
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(text), "\n"))
}
