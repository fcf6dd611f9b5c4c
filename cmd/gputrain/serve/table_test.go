package serve

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTableTakesEveryNumber(t *testing.T) {
	tab := newTable()
	for _, line := range []string{
		`{"step":1,"loss":5.5,"tokens":100,"step_ms":500,"stage_busy":[0.5,0.25]}`,
		`{"step":2,"loss":"NaN","tokens":200,"step_ms":250,"note":"text","deep":{"x":[1]},"on":true,"none":null}`,
		` {"step": 2, "eval_loss": 4.5, "eval_tokens": 1000}`,
		`{"step":6,"loss":4,"tokens":600,"step_ms":1000,"new_metric":-1e-3,"watched":{"norm/params/a.b":2.5,"deep":{"x":1}}}`,
		`{"step":7,"pairs":{"margin":0.5}}`,
		`{"step":8,"figures":{"margin":0.75}}`,
	} {
		require.NoError(t, tab.add([]byte(line)))
	}
	assert.Equal(t, []string{"loss", "tokens", "step_ms", "stage_busy.0", "stage_busy.1", "eval_loss", "eval_tokens", "new_metric", "watched.norm/params/a.b", "figures.margin"}, tab.names)
	assert.Equal(t, []float64{0.5, 0.75}, tab.series["figures.margin"].value, "earlier versions called figures pairs")
	assert.Equal(t, []float64{1, 2, 2, 6, 7, 8}, tab.axes[0])
	assert.Equal(t, []float64{100, 200, 200, 600, 600, 600}, tab.axes[1])
	assert.Equal(t, []float64{0.5, 0.75, 0.75, 4.75, 4.75, 4.75}, tab.axes[2], "each of four steps took a second")
	assert.True(t, math.IsNaN(tab.series["loss"].value[1]))
	assert.Equal(t, []int32{0, 1, 3}, tab.series["loss"].line)

	for bad, says := range map[string]string{
		`{`: "unexpected end", `[]`: `found no "step"`, `nonsense`: "invalid character", `{"loss":1}`: `found no "step"`, `{"step":"NaN"}`: "found step NaN", `{"step":-1}`: "found step -1", ``: "unexpected end",
		`{"new":1,"step":1}}`: "invalid character",
	} {
		tab := newTable()
		assert.ErrorContains(t, tab.add([]byte(bad)), says)
		assert.Equal(t, 1, tab.lines(), "a line has a place, whatever it is")
		assert.Empty(t, tab.names)
	}
}

// A run has a million lines: to take one of the usual ones allocates little but the growth of its series.
func TestTableTakesALineAsItStands(t *testing.T) {
	tab := newTable()
	line := []byte(`{"step":1,"loss":5.5,"tokens":100,"step_ms":500.25,"stage_busy":[0.5,0.25],"watched":{"norm/params/a.b":2.5}}`)
	assert.Less(t, testing.AllocsPerRun(1000, func() { require.NoError(t, tab.add(line)) }), 12.0)
}
