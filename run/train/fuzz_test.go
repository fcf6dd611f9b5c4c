package train

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

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
