package table

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

func TestTableTakesEveryNumber(t *testing.T) {
	tab := New(Temporary)
	for _, line := range []string{
		`{"step":1,"loss":5.5,"tokens":100,"step_ms":500,"stage_busy":[0.5,0.25]}`,
		`{"step":2,"loss":"NaN","tokens":200,"step_ms":250,"note":"text","deep":{"x":[1]},"on":true,"none":null}`,
		`{"step":2,"eval_loss":4.5,"eval_tokens":1000}`,
		`{"step":6,"loss":4,"tokens":600,"step_ms":1000,"new_metric":-1e-3,"watched":{"norm/params/a.b":2.5,"deep":{"x":1}}}`,
	} {
		require.NoError(t, add(tab, line))
	}
	assert.Equal(t, []string{"loss", "tokens", "step_ms", "stage_busy.0", "stage_busy.1", "eval_loss", "eval_tokens", "new_metric", "watched.norm/params/a.b"}, tab.Names())
	axis := func(i int) []float64 {
		var c Column
		require.NoError(t, tab.ReadAxis(0, i, &c))
		return c.Value
	}
	assert.Equal(t, []float64{1, 2, 2, 6}, axis(0))
	assert.Equal(t, []float64{100, 200, 200, 600}, axis(1))
	assert.Equal(t, []float64{0.5, 0.75, 0.75, 4.75}, axis(2), "each of four steps took a second")
	var loss Column
	require.NoError(t, tab.ReadSeries(0, "loss", &loss))
	assert.True(t, math.IsNaN(loss.Value[1]))
	assert.Equal(t, []int32{0, 1, 3}, loss.Line)

	require.NoError(t, tab.Rewind(2))
	assert.Equal(t, []string{"loss", "tokens", "step_ms", "stage_busy.0", "stage_busy.1"}, tab.Names())
	require.NoError(t, tab.ReadSeries(0, "loss", &loss))
	assert.Len(t, loss.Value, 2)
	assert.Equal(t, 2, tab.Lines())
	require.NoError(t, tab.Rewind(0))
	assert.Empty(t, tab.Names())

	for _, bad := range []string{`{`, `[]`, `nonsense`, `{"loss":1}`, `{"step":"NaN"}`, `{"step":-1}`, `{"step":1} `, ``} {
		tab := New(Temporary)
		err := add(tab, bad)
		assert.Equal(t, strings.HasPrefix(bad, `{"step":1}`), err == nil, bad)
		assert.Equal(t, 1, tab.Lines(), "a line has a place, whatever it is")
	}
}

func FuzzNumbers(f *testing.F) {
	f.Add([]byte(`{"step":1,"loss":"Infinity","a":[1,"NaN",{"b":[2]}],"c":null}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		frugal.Parse(t, len(line), func() {
			var all map[string]any
			_, err := stepOf(line)
			if json.Unmarshal(line, &all) != nil || all == nil {
				require.Error(t, err)
				return
			}
			for key, got := range numbers(line) {
				name, _, nested := strings.Cut(string(key), ".")
				if v, ok := all[string(key)].(float64); ok && !nested && !math.IsNaN(got) && strings.Count(string(line), `"`+name+`"`) == 1 {
					assert.Equal(t, v, got)
				}
			}
		})
	})
}

// A run has a million lines: to take one of the usual ones allocates nothing but the growth of its series.
func TestTableTakesALineAsItStands(t *testing.T) {
	tab := New(Temporary)
	line := []byte(`{"step":1,"loss":5.5,"tokens":100,"step_ms":500.25,"stage_busy":[0.5,0.25],"watched":{"norm/params/a.b":2.5}}`)
	assert.Less(t, testing.AllocsPerRun(1000, func() {
		bad, err := tab.Add(line, 0, int64(len(line)))
		require.NoError(t, errors.Join(bad, err))
	}), 3.0)
}

func add(t *Table, line string) error {
	bad, err := t.Add([]byte(line), t.End(), int64(len(line)))
	return errors.Join(bad, err)
}
