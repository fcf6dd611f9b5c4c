package train

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// What a run that has ended says of itself its files say too, but for the time and the memory of its process. While it goes on, or when it was killed,
// they say how far it has come.
func TestSummary(t *testing.T) {
	dev, dir, live := gputest.Device(t), t.TempDir(), filepath.Join(t.TempDir(), "live")
	c := tinyRun(t, dir)
	c.Title, c.Notes, c.Data, c.SaveAsync = "a|title", []string{"some text"}, &Amounts{Files: 1, Bytes: 4242}, false
	c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		if e.Kind != Saved || e.Step != 6 {
			return nil
		}
		if err := os.CopyFS(live, os.DirFS(dir)); err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(live, metricsFile), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(`{"step":7,"loss":3}` + "\n" + `{"step":8,"lo`)
			assert.NoError(t, f.Close())
		}
		return err
	})}
	ran(t, dev, c)
	own := textAt(t, dir, reportFile)
	s, err := ReadSummary(dir)
	require.NoError(t, err)
	text := string(s.Text())
	for line := range strings.Lines(own) {
		switch name, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |"); {
		case strings.HasPrefix(line, "## Time"), strings.HasPrefix(line, "## Memory"), strings.HasPrefix(line, "!["), name == "checkpoint":
		case name == "ended":
			assert.Contains(t, text, "| state | done at step 12 of 12 |\n")
		case strings.Count(line, "|") == 3 && strings.HasPrefix(line, "| "), strings.HasPrefix(line, "#"), strings.HasPrefix(line, "  "):
			if !strings.Contains(string(own[strings.Index(own, "\n## Time"):strings.Index(own, "\n## Operations")]), line) {
				assert.Contains(t, text, line)
			}
		}
	}
	assert.Equal(t, []any{"done", int64(12), int64(12), 1, "step-00000012", "tiny", c.Data}, []any{s.Ended, s.Step, s.Steps, s.Processes, s.Checkpoint, s.Fingerprint, s.Data})
	assert.Equal(t, []int64{1, 12}, []int64{s.First.Step, s.Last.Step})

	killed, err := ReadSummary(live)
	require.NoError(t, err)
	assert.Contains(t, string(killed.Text()), "| state | goes on, or was killed, at step 7 of 12 |\n")
	assert.NotContains(t, string(killed.Text()), "damaged")
	assert.Equal(t, "step-00000006", killed.Checkpoint)
	c = tinyRun(t, live)
	c.Title, c.Keep = "again", 4
	ran(t, dev, c)
	again, err := ReadSummary(live)
	require.NoError(t, err)
	assert.Contains(t, string(again.Text()), "# again\n")
	assert.Contains(t, string(again.Text()), "| processes | 2, the newest from step 6 |\n")

	at, err := ReadSummaryAt(live, 6) // which the second process has nothing to do with
	require.NoError(t, err)
	assert.Equal(t, []any{int64(6), int64(6), 1, "a|title", "step-00000006"}, []any{at.Step, at.Last.Step, at.Processes, at.Title, at.Checkpoint})
	require.Len(t, at.Evaluations, 1)
	assert.Equal(t, int64(4), at.Best.Step)
}
