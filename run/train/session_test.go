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
		halted(t, dev, c, StepEnd, stop)
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(`{"step":`)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	for range 2 { // the second has nothing to do
		ran(t, dev, tinyRun(t, dir))
	}
	text := textAt(t, path)
	var steps []int64
	for line := range strings.Lines(text) {
		var s session
		require.NoError(t, json.Unmarshal([]byte(line), &s), line)
		steps = append(steps, s.Step)
		assert.WithinRange(t, s.Time, begin.Add(-time.Second), time.Now(), "in whole seconds")
		assert.Contains(t, s.Adapter, dev.Adapter().Name)
	}
	assert.Equal(t, []int64{0, 2, 7}, steps)
	c := tinyRun(t, dir)
	c.Fresh = true
	halted(t, dev, c, Started, 0)
	text = textAt(t, path)
	assert.Equal(t, 1, strings.Count(text, "\n"))
}
