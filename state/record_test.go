package state

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// The record keeps an optimizer's configuration as text: the file has it as encoding/json writes the configuration itself, also what is special in JSON.
func TestRecordHasTheOptimizerAsItIs(t *testing.T) {
	c := tinyConfig(t)
	c.Optimizer = tinyOptimizer()
	c.Optimizer.Options.Rates = []optim.PathRate{{Pattern: "wte|<>&\u2028\"", Multiplier: 0.5}}
	s := create(t, gputest.Device(t), c)
	dir := filepath.Join(t.TempDir(), "x")
	require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
	want, err := json.MarshalIndent(s.job.Optimizer, "    ", "  ")
	require.NoError(t, err)
	assert.Contains(t, contents(t, dir)[checkpoint.RecordFile], "    \"config\": "+string(want)+",\n    \"counts\"")

	record, err := checkpoint.ReadRecord(checkpoint.OS, dir)
	require.NoError(t, err)
	found, err := SavedOptimizer(record)
	require.NoError(t, err)
	again, err := record.Source()
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, again.Write(&text))
	assert.Equal(t, contents(t, dir)[checkpoint.RecordFile], text.String())
	assert.JSONEq(t, string(jsonText(s.job.Optimizer)), string(jsonText(found)))

	// Where it is not one, that is said of the file.
	for _, bad := range []string{`{"name":"adamw","rate":1}`, `[]`} {
		record.Optimizer.Config = json.RawMessage(bad)
		_, err = SavedOptimizer(record)
		require.ErrorIs(t, err, checkpoint.ErrCorrupt)
		assert.ErrorContains(t, err, "state.json: optimizer: ")
	}
	record.Optimizer.Config = nil
	found, err = SavedOptimizer(record)
	require.NoError(t, err)
	assert.Empty(t, found.Name)
}
