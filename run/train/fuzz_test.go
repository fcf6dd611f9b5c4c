package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// FuzzLines: a log is cut between two lines, and what is left of it is left again; figures and samples that are read are written as what is
// read again.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"step":1,"loss":5.5,"learning_rate":0.01,"grad_norm":"NaN","tokens":64,"tokens_per_second":800.5,"step_ms":80,"stage_busy":[0.5,0.25],"watched":{"norm/params/a":1}}`+"\n"+
		`{"step":2,"eval_loss":5.25,"eval_tokens":99,"eval_ms":12}`+"\n"+`{"step":3,"lo`), int64(1))
	f.Add([]byte(`{"step":6,"prompt":"line","text":"\u0000 5\ud800","temperature":0.8,"top_k":20,"seed":18446744073709551615}`+"\n\n"), int64(9))
	f.Add([]byte(`{"step":5,"name":"params/h.0.ln_1.weight","elements":16,"nonfinite":3,"min":-0.1,"max":"Infinity","mean":0,"std":0.02,"counts":[16,0]}`+"\n"), int64(5))
	f.Add([]byte(`{"step":1}`+"\n"+`{"step":"1"}`+"\n"+`{"step":-1,"loss":"""}`+"\nnull\n[]\n"), int64(-1))
	name := filepath.Join(f.TempDir(), metricsFile)
	f.Fuzz(func(t *testing.T, raw []byte, step int64) {
		require.NoError(t, os.WriteFile(name, raw, 0o666))
		frugal.Parse(t, len(raw), func() {
			var found, again extent
			require.NoError(t, found.upTo(bytes.NewReader(raw), step))
			require.LessOrEqual(t, found.keep, int64(len(raw)))
			require.True(t, found.keep == 0 || raw[found.keep-1] == '\n')
			require.True(t, found.keep == 0 || found.last <= step)
			require.NoError(t, again.upTo(bytes.NewReader(raw[:found.keep]), step))
			require.Equal(t, found, again)

			steps, evals, _, err := readMetrics(name)
			require.NoError(t, err)
			for _, m := range steps {
				requireRoundTrip(t, m)
			}
			for _, m := range evals {
				requireRoundTrip(t, m)
			}
			samples, _, err := readSamples(name)
			require.NoError(t, err)
			for _, s := range samples {
				requireRoundTrip(t, s)
			}
		})
	})
}

// requireRoundTrip writes v, reads it and writes it.
func requireRoundTrip[T any](t *testing.T, v T) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	var back T
	require.NoError(t, json.Unmarshal(text, &back))
	twice, err := json.Marshal(back)
	require.NoError(t, err)
	require.Equal(t, string(text), string(twice))
}

// FuzzSettings: whatever a run.yaml holds, comparing it with the settings of a run ends, and takes little.
func FuzzSettings(f *testing.F) {
	text, err := settingsText([]Setting{{Key: "model.kind", Value: "gpt2", Origin: "run.yaml:3"}, {Key: "train.steps", Value: 80, Origin: "default"}})
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(laughs(7)))
	f.Add([]byte("a: &"))
	f.Add([]byte("a:\n  b: 1\n a: 2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		frugal.Parse(t, len(text), func() {
			flat, err := flatten(text)
			if err != nil {
				return
			}
			for _, value := range flat {
				require.True(t, json.Valid([]byte(value)), value)
			}
		})
	})
}

// laughs is a YAML text of so many lines, each of which has the line before ten times.
func laughs(lines int) string {
	text := "a0: &a0 [" + strings.Repeat("x, ", 9) + "x]\n"
	for i := 1; i < lines; i++ {
		again := fmt.Sprintf("*a%d", i-1)
		text += fmt.Sprintf("a%d: &a%d [%sx]\n", i, i, strings.Repeat(again+", ", 10))
	}
	return text
}

func TestNamesOfValuesAreRefused(t *testing.T) {
	for text, says := range map[string]string{laughs(2): "line 1: found an anchor", "a: 1\nb: *x\n": "line 2: found an alias"} {
		_, err := flatten([]byte(text))
		assert.ErrorContains(t, err, says)
	}
}
