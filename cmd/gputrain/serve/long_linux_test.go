package serve

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/train/table"
)

// proc is a number that the system keeps of this process.
func proc(t *testing.T, file, name string) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/" + file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			_, err := fmt.Sscan(value, &n)
			require.NoError(t, err)
		}
	}
	return n
}

func answered(t *testing.T, s *Server, path string) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "127.0.0.1"
	s.handler().ServeHTTP(w, r)
	require.Equal(t, 200, w.Code, w.Body.String())
	return w.Body.Bytes()
}

// figured is a part of an answer that does not differ between servers.
func figured(t *testing.T, s *Server, query string) string {
	t.Helper()
	_, series, ok := bytes.Cut(answered(t, s, "/api/curves?run=0"+query), []byte(`"low"`))
	require.True(t, ok)
	return string(series)
}

// opened is a server that has looked at a directory, and what it has read for that.
func opened(t *testing.T, dir string) (s *Server, read int64) {
	t.Helper()
	s, err := New(dir)
	require.NoError(t, err)
	before := proc(t, "io", "rchar")
	s.poll()
	return s, proc(t, "io", "rchar") - before
}

// The page of a run of very many steps reads the end of metrics.jsonl and what its index says of the rest, has the curves of a page that reads all, and
// takes memory that does not grow with the run. GPUTRAIN_SOAK takes ten million steps.
func TestSoakLongRunIsShownByItsIndex(t *testing.T) {
	steps := 1_000_000
	if testing.Short() {
		steps = 100_000
	}
	slow, fast := t.TempDir(), t.TempDir()
	longRun(t, fast, steps)
	require.NoError(t, os.Link(filepath.Join(fast, metricsFile), filepath.Join(slow, metricsFile)))
	size, err := os.Stat(filepath.Join(fast, metricsFile))
	require.NoError(t, err)
	all, read := opened(t, slow)
	assert.Greater(t, read, size.Size())
	shown, read := opened(t, fast)
	assert.Less(t, read, size.Size()/20, "lines that fill no block, headers, and the last line of each block")
	for _, query := range []string{"", "&span=32", "&x=time&span=8", "&x=tokens&bucket=64&from=100000&to=200000", "&key=mfu&span=16&from=50000&to=50100&bucket=1"} {
		want := figured(t, all, query)
		require.Contains(t, want, `"mfu"`)
		require.True(t, want == figured(t, shown, query), query)
	}
	for _, bucket := range []string{"1024", "16384", "1e9"} {
		assert.Contains(t, figured(t, shown, "&key=loss&bucket="+bucket), ",99", "a spike of one step")
		assert.Contains(t, figured(t, shown, "&key=grad_norm&bucket="+bucket), `"bad":[`+fmt.Sprint(steps/3), "and a step that is not a number")
	}
}

// What the server takes for a run's curves, at every zoom, is some megabytes, whatever the run is long.
func TestSoakMemoryOfALongRun(t *testing.T) {
	steps, most := 200_000, int64(12<<10)
	if os.Getenv("GPUTRAIN_SOAK") == "1" {
		steps, most = 10_000_000, 40<<10
	}
	dir := t.TempDir()
	longRun(t, dir, steps)
	debug.FreeOSMemory()
	require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // the most so far is what it has now
	before, began := proc(t, "status", "VmRSS"), time.Now()
	s, _ := opened(t, dir)
	answered(t, s, "/api/runs")
	t.Logf("%d steps: read in %v", steps, time.Since(began).Round(time.Millisecond))
	index, err := os.Stat(filepath.Join(dir, table.File))
	require.NoError(t, err)
	for query, share := range map[string]int64{ // of the index, that may be read
		"&bucket=16384": 8, "&bucket=16384&span=32": 8, "&x=time&bucket=1e9": 8,
		"&from=1000&to=2000&bucket=1": 16, fmt.Sprintf("&from=%d&bucket=1&span=1024", steps-2000): 4,
	} {
		began, before := time.Now(), proc(t, "io", "rchar")
		n := len(answered(t, s, "/api/curves?run=0"+query))
		read := proc(t, "io", "rchar") - before
		t.Logf("%s: %d kB, of %d kB read, in %v", query, n>>10, read>>10, time.Since(began).Round(time.Millisecond))
		assert.Less(t, read, index.Size()/share, query)
	}
	grown := proc(t, "status", "VmHWM") - before
	t.Logf("most memory: %d kB more", grown)
	assert.Less(t, grown, most, "kB")
}
