package serve

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/train/table"
)

// longRun makes a run directory of so many steps, with as many figures a line as a run on two stages has.
func longRun(t *testing.T, dir string, steps int) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, metricsFile))
	require.NoError(t, err)
	log := bufio.NewWriterSize(f, 1<<20)
	tab := table.New(func() (*os.File, error) { return os.Create(filepath.Join(dir, table.File)) })
	var line []byte
	at := int64(0)
	for step := 1; step <= steps; step++ {
		x := float64(step)
		wave := math.Sin(x / 500)
		line = fmt.Appendf(line[:0], `{"step":%d,"loss":%.7g,"tokens":%d,"step_ms":%.5g,"mfu":%.5g,"tokens_per_second":%.6g,"learning_rate":%.7g,"grad_norm":%.6g,"compute_ms":%.5g,"data_ms":%.4g,"stage_busy":[%.4g,%.4g]}`+"\n",
			step, 2+wave, 64*step, 20+wave, 0.5+wave/8, 3000-100*wave, 1e-3/x, 1+wave/2, 18+wave, 0.25, 0.9+wave/99, 0.8-wave/99)
		if step == steps/3 { // neither the first nor the last of a strip
			line = fmt.Appendf(line[:0], `{"step":%d,"loss":99,"tokens":%d,"step_ms":20,"grad_norm":"NaN"}`+"\n", step, 64*step)
		}
		_, err := log.Write(line)
		require.NoError(t, err)
		_, err = tab.Add(line, at, int64(len(line)))
		require.NoError(t, err)
		at += int64(len(line))
	}
	require.NoError(t, log.Flush())
	require.NoError(t, f.Close())
	require.NoError(t, tab.Close())
}

// A mean that is drawn of strips is that of all points where it is over more of them than a strip has, and a rate's is by time. Within a strip all points
// weigh the same: as the loss moves by half at most in one, and a strip of 256 is 0.4 of a mean over 1,024, that is 0.4 x 0.5 x 0.5 / 12 = 0.8 % of about 1.
// A mean begins over few points, and is over 1,024 from step 4,096 on.
func TestMeanOfStripsIsThatOfPoints(t *testing.T) {
	const steps = 20_000
	dir := t.TempDir()
	longRun(t, dir, steps)
	s := open(t, dir)
	s.poll()
	for _, name := range []string{"loss", "tokens_per_second"} {
		for _, span := range []float64{2048, 8192} {
			draw := func(bucket float64) curve {
				curves, err := drawAll(s.list()[0].table, []string{name}, 0, view{from: 1, to: steps, bucket: bucket, span: span})
				require.NoError(t, err)
				return curves[0]
			}
			points, strips := draw(1), draw(4*table.StripPoints)
			require.Len(t, points.x, steps-map[string]int{"tokens_per_second": 1}[name])
			require.Less(t, len(strips.x), 4*table.StripPoints*2) // the lines that fill no block are points
			for i, x := range strips.x {
				at := below(points.x, x)
				if x < 4096 {
					continue
				}
				assert.InEpsilon(t, points.y[at], strips.y[i], 0.01, "%s, span %g, step %g", name, span, x)
			}
		}
	}
}
