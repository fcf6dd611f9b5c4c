package serve

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

func TestTableTakesEveryNumber(t *testing.T) {
	var tab table
	for _, line := range []string{
		`{"step":1,"loss":5.5,"tokens":100,"step_ms":500,"stage_busy":[0.5,0.25]}`,
		`{"step":2,"loss":"NaN","tokens":200,"step_ms":250,"note":"text","deep":{"x":[1]},"on":true,"none":null}`,
		`{"step":2,"eval_loss":4.5,"eval_tokens":1000}`,
		`{"step":6,"loss":4,"tokens":600,"step_ms":1000,"new_metric":-1e-3,"watched":{"norm/params/a.b":2.5,"deep":{"x":1}}}`,
	} {
		require.NoError(t, tab.add([]byte(line)))
	}
	assert.Equal(t, []string{"loss", "tokens", "step_ms", "stage_busy.0", "stage_busy.1", "eval_loss", "eval_tokens", "new_metric", "watched.norm/params/a.b"}, tab.names)
	assert.Equal(t, []float64{1, 2, 2, 6}, tab.steps)
	assert.Equal(t, []float64{100, 200, 200, 600}, tab.tokens)
	assert.Equal(t, []float64{0.5, 0.75, 0.75, 4.75}, tab.time, "each of four steps took a second")
	assert.True(t, math.IsNaN(tab.series["loss"].value[1]))
	assert.Equal(t, []int32{0, 1, 3}, tab.series["loss"].line)

	tab.rewind(2)
	assert.Equal(t, []string{"loss", "tokens", "step_ms", "stage_busy.0", "stage_busy.1"}, tab.names)
	assert.Len(t, tab.series["loss"].value, 2)
	assert.Len(t, tab.steps, 2)
	tab.rewind(0)
	assert.Empty(t, tab.names)

	for _, bad := range []string{`{`, `[]`, `nonsense`, `{"loss":1}`, `{"step":"NaN"}`, `{"step":-1}`, `{"step":1} `, ``} {
		var tab table
		err := tab.add([]byte(bad))
		assert.Equal(t, strings.HasPrefix(bad, `{"step":1}`), err == nil, bad)
		assert.Len(t, tab.steps, 1, "a line has a place, whatever it is")
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

func TestSettings(t *testing.T) {
	text := "# Every value in force\nmodel:\n  kind: \"gpt2 # not a remark\"   # run.yaml:3\n  deep:\n    x: [1,2]  # --set\n    y: {\"a\":null}\ndata:\n  text: null    # default\nseed: 3\n"
	got, err := parseSettings([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, []setting{
		{"model.kind", json.RawMessage(`"gpt2 # not a remark"`), "run.yaml:3"},
		{"model.deep.x", json.RawMessage(`[1,2]`), "--set"},
		{"model.deep.y", json.RawMessage(`{"a":null}`), ""},
		{"data.text", json.RawMessage("null"), "default"},
		{"seed", json.RawMessage("3"), ""},
	}, got)
	for _, bad := range []string{"a: b: c\n", "  a: 1\n", "words\n"} {
		_, err := parseSettings([]byte(bad))
		assert.Error(t, err, bad)
	}
}

// FuzzSettings: whatever stands in run.yaml, reading it ends; what is read are keys with values in JSON.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("# Every value in force\nmodel:\n  kind: \"gpt2 # no remark\"   # run.yaml:3\n  deep:\n    x: [1,2]  # --set\nseed: 3\n"))
	f.Add([]byte("a:\n      b: 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		frugal.Parse(t, len(text), func() {
			found, err := parseSettings(text)
			if err != nil {
				return
			}
			for _, s := range found {
				require.True(t, json.Valid(s.Value), "%s: %s", s.Key, s.Value)
			}
		})
	})
}

// A run has a million lines: to take one of the usual ones allocates nothing but the growth of its series.
func TestTableTakesALineAsItStands(t *testing.T) {
	var tab table
	line := []byte(`{"step":1,"loss":5.5,"tokens":100,"step_ms":500.25,"stage_busy":[0.5,0.25],"watched":{"norm/params/a.b":2.5}}`)
	assert.Less(t, testing.AllocsPerRun(1000, func() { require.NoError(t, tab.add(line)) }), 3.0)
}
