package inspect

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/terminal"
	"gputrain/train/tensorboard"
)

// eventFiles are those of a process that was killed after step 4 while it wrote, and of one that went on from step 2.
func eventFiles(t *testing.T) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	scalar := func(v float64) []tensorboard.Value {
		return []tensorboard.Value{{Tag: "train/loss", Kind: tensorboard.Scalar, Scalar: float32(v)}}
	}
	processes := [][]tensorboard.Event{{
		{Step: 1, Values: scalar(8)},
		{Step: 2, Values: scalar(7)},
		{Step: 2, Values: []tensorboard.Value{
			{Tag: "params/w", Kind: tensorboard.Distribution, Histogram: &tensorboard.Histogram{
				Min: -1, Max: 3, Count: 4, Sum: 4, SumOfSquares: 20, Limits: []float64{1, 3}, Counts: []float64{2, 2},
			}},
			{Tag: "sample", Kind: tensorboard.Text, Text: "    To be, or not to be, that is the question:\n    Whether"},
		}},
		{Step: 3, Values: scalar(6)},
		{Step: 4, Values: append(scalar(5), tensorboard.Value{Tag: "lost", Kind: tensorboard.Scalar})},
	}, {
		{Step: 3, Values: scalar(math.NaN())},
	}}
	for _, events := range processes {
		w, err := tensorboard.Create(dir, events[0].Step)
		require.NoError(t, err)
		require.NoError(t, w.Write(events...))
		require.NoError(t, w.Close())
	}
	files, err := tensorboard.Files(dir)
	require.NoError(t, err)
	require.Len(t, files, 2)
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], append(whole, 9, 0), 0o666))
	return dir, files
}

func TestEvents(t *testing.T) {
	dir, files := eventFiles(t)
	log, err := tensorboard.ReadLog(files...)
	require.NoError(t, err)
	series := Events(log)
	raw, err := json.Marshal(series)
	require.NoError(t, err)
	assert.JSONEq(t, `[
		{"tag": "params/w", "kind": "histogram", "points": 1, "first_step": 2, "last_step": 2, "mean": 1, "std": 2, "min": -1, "max": 3},
		{"tag": "sample", "kind": "text", "points": 1, "first_step": 2, "last_step": 2, "text": "    To be, or not to be, that is the question:\n    Whether"},
		{"tag": "train/loss", "kind": "scalar", "points": 3, "first_step": 1, "last_step": 3, "value": "NaN"}
	]`, string(raw))

	var out bytes.Buffer
	require.NoError(t, EventTable(&out, files, log, series))
	assert.Equal(t, strings.ReplaceAll(`event files: 2; processes began at step 1, 3
CUT ends within a record: its process was killed, or is writing
TAG         KIND       POINTS  FIRST STEP  LAST STEP  LAST VALUE
params/w    histogram  1       2           2          1 ± 2, from -1 to 3
sample      text       1       2           2          "To be, or not to be, that is the questi…
train/loss  scalar     3       1           3          nan
`, "CUT", filepath.Join(dir, filepath.Base(files[0]))), out.String())
}

// A name in a file is a stranger's: it must not move the cursor or begin another line of the table.
func TestNamesTellATerminalNothing(t *testing.T) {
	for name, want := range map[string]string{
		"h.0.attn.weight": "h.0.attn.weight", "Gewicht.ä": "Gewicht.ä",
		"\x1b[2Jw": `"\x1b[2Jw"`, "a\tb\nc": `"a\tb\nc"`, "a\u202eb": `"a\u202eb"`, "\xff": `"\xff"`,
	} {
		assert.Equal(t, want, terminal.Name(name))
	}
	var out bytes.Buffer
	require.NoError(t, EventTable(&out, nil, &tensorboard.Log{}, []Series{{Tag: "\x1b[2Jw\nx"}}))
	assert.NotContains(t, out.String(), "\x1b")
	assert.Contains(t, out.String(), `"\x1b[2Jw\nx"`)
}
