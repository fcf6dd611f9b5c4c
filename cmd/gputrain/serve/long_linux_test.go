package serve

import (
	"bytes"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/train/table"
)

// The page of a run of very many steps reads the end of metrics.jsonl and what its index says of the rest, and has the curves of a page that reads all.
func TestLongRunIsShownByItsIndex(t *testing.T) {
	steps := 1_000_000
	if testing.Short() {
		steps = 100_000
	}
	var log []byte
	for step := 1; step <= steps; step++ {
		log = fmt.Appendf(log, `{"step":%d,"loss":%g,"tokens":%d,"step_ms":%g,"mfu":%g}`+"\n", step, math.Sin(float64(step)), 64*step, 20+math.Cos(float64(step)), math.Cos(float64(step)))
	}
	slow, fast := t.TempDir(), t.TempDir()
	for _, dir := range []string{slow, fast} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, metricsFile), log, 0o666))
	}
	tab, at := table.New(func() (*os.File, error) { return os.Create(filepath.Join(fast, table.File)) }), int64(0)
	for line := range bytes.Lines(log) {
		_, err := tab.Add(line, at, int64(len(line)))
		require.NoError(t, err)
		at += int64(len(line))
	}
	require.NoError(t, tab.Close())
	index, err := os.Stat(filepath.Join(fast, table.File))
	require.NoError(t, err)

	open := func(dir string) (s *Server, read int64) {
		count := func() (n int64) {
			text, err := os.ReadFile("/proc/self/io")
			require.NoError(t, err)
			_, err = fmt.Sscanf(string(text), "rchar: %d", &n)
			require.NoError(t, err)
			return n
		}
		s, err := New(dir)
		require.NoError(t, err)
		before := count()
		s.poll()
		return s, count() - before
	}
	all, read := open(slow)
	assert.Greater(t, read, int64(len(log)))
	shown, read := open(fast)
	assert.Less(t, read, int64(len(log)/(steps/4096))+index.Size()/20, "lines that fill no block, headers, and the last line of each block")
	for _, query := range []string{"", "&span=32", "&x=time&span=8", "&x=tokens&bucket=64&from=100000&to=200000", "&key=mfu&span=16&from=50000&to=50100&bucket=1"} {
		answer := func(s *Server) string {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/api/curves?run=0"+query, nil)
			r.Host = "127.0.0.1"
			s.handler().ServeHTTP(w, r)
			require.Equal(t, 200, w.Code, w.Body.String())
			_, series, ok := bytes.Cut(w.Body.Bytes(), []byte(`"low"`))
			require.True(t, ok)
			return string(series)
		}
		want := answer(all)
		require.Contains(t, want, `"mfu"`)
		require.True(t, want == answer(shown), query)
	}
}
