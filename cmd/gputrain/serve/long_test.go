package serve

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longRun makes a run directory of so many steps, with as many figures a line as a run on two stages has.
func longRun(t *testing.T, dir string, steps int) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, metricsFile))
	require.NoError(t, err)
	log := bufio.NewWriterSize(f, 1<<20)
	for step := 1; step <= steps; step++ {
		x := float64(step)
		wave := math.Sin(x / 500)
		if step == steps/3 {
			_, err = fmt.Fprintf(log, `{"step":%d,"loss":99,"tokens":%d,"step_ms":20,"grad_norm":"NaN"}`+"\n", step, 64*step)
		} else {
			_, err = fmt.Fprintf(log, `{"step":%d,"loss":%.7g,"tokens":%d,"step_ms":%.5g,"mfu":%.5g,"tokens_per_second":%.6g,"learning_rate":%.7g,"grad_norm":%.6g,"compute_ms":%.5g,"data_ms":%.4g,"stage_busy":[%.4g,%.4g]}`+"\n",
				step, 2+wave, 64*step, 20+wave, 0.5+wave/8, 3000-100*wave, 1e-3/x, 1+wave/2, 18+wave, 0.25, 0.9+wave/99, 0.8-wave/99)
		}
		require.NoError(t, err)
	}
	require.NoError(t, log.Flush())
	require.NoError(t, f.Close())
}

// Of a run of very many steps the page has every spike, keeps some 200 bytes a step in memory, and reads the end alone once it has read all.
// GPUTRAIN_SOAK takes a million steps, of which the page takes some seconds.
func TestSoakLongRunIsShown(t *testing.T) {
	steps := 50_000
	if os.Getenv("GPUTRAIN_SOAK") == "1" {
		steps = 1_000_000
	}
	dir := t.TempDir()
	longRun(t, dir, steps)
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, began := heap(), time.Now()
	s := open(t, dir)
	t.Logf("%d steps: read in %v", steps, time.Since(began).Round(time.Millisecond))
	assert.Less(t, heap()-before, 300*steps)
	for _, bucket := range []string{"1024", "16384", "1e9"} {
		for key, want := range map[string]string{"loss": ",99", "grad_norm": `"bad":[` + fmt.Sprint(steps/3)} {
			code, curves := get(t, s, "/api/curves?run=0&key="+key+"&bucket="+bucket)
			require.Equal(t, 200, code)
			assert.Contains(t, curves, want)
		}
	}

	f, err := os.OpenFile(filepath.Join(dir, metricsFile), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("{{"), 0) // is not looked at again
	require.NoError(t, err)
	_, err = f.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	_, err = fmt.Fprintf(f, `{"step":%d,"loss":7}`+"\n", steps+1)
	require.NoError(t, err)
	s.poll()
	found := s.list()[0].summary()
	assert.EqualValues(t, steps+1, found.Step)
	assert.EqualValues(t, 7, found.Last["loss"])
	assert.Empty(t, found.Warnings)
}

// A mean is drawn as if it began with the first step, also where it begins later.
func TestMeanBeginsBeforeTheView(t *testing.T) {
	const steps = 20_000
	dir := t.TempDir()
	longRun(t, dir, steps)
	table := open(t, dir).list()[0].table
	for _, name := range []string{"loss", "tokens_per_second"} {
		for _, span := range []float64{2, 32, 500} {
			all := table.draw(name, 0, view{from: 1, to: steps, bucket: 1, span: span})
			for _, from := range []float64{2, 100, steps/3 + 40, 15_000} {
				part := table.draw(name, 0, view{from: from, to: steps, bucket: 1, span: span})
				at := below(all.x, from) - 1
				require.Equal(t, all.x[at:], part.x)
				for i, y := range part.y {
					require.InEpsilon(t, all.y[at+i], y, 1e-12, "%s, span %g, from %g, step %g", name, span, from, part.x[i])
				}
			}
		}
	}
}
