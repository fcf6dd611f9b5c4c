package train

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	dir := t.TempDir()
	log, err := openLines(nil, filepath.Join(dir, metricsFile), 0)
	require.NoError(t, err)
	for step := int64(1); step <= 50; step++ {
		m := Metrics{Step: step, Loss: Number(5.5 / math.Sqrt(float64(step))), Tokens: step * 1024, Cost: Cost{StepMS: 100, TokensPerSecond: 10240, PaddedTokensPerSecond: 20480}}
		if step >= 20 {
			m.Skipped = 1
		}
		if step == 20 {
			m.Loss = Number(math.NaN())
		}
		require.NoError(t, log.write(m))
		if step%25 == 0 {
			require.NoError(t, log.write(EvalMetrics{Step: step, Loss: Number(6 / math.Sqrt(float64(step))), Tokens: 5000}))
		}
	}
	require.NoError(t, log.close())
	samples, err := openLines(nil, filepath.Join(dir, samplesFile), 0)
	require.NoError(t, err)
	for _, before := range []Sample{{Prompt: "func ", Text: "a|b\n\x1b<i>\\"}, {Prompt: "func ", Text: "again"}, {Prompt: "if ", Text: "never after"}, {Step: 9, Prompt: "for ", Text: "never before"}} {
		require.NoError(t, samples.write(before))
	}
	require.NoError(t, samples.write(Sample{Step: 50, Prompt: "func ", Text: "main() {\n\x00}\n```\n", Temperature: .8, TopK: 40, TopP: .9}))
	require.NoError(t, samples.close())

	var known facts
	known.add("adapter", "a|b")
	settings := textOf(t, sampleSettings())
	for range 2 { // a report is replaced
		require.NoError(t, report{title: "GPT-2 on text", facts: known, settings: settings}.write(dir))
	}
	text := textAt(t, dir, reportFile)
	for _, want := range []string{
		"# GPT-2 on text", "](loss.svg)", `| adapter | a\|b |`, "| steps | 50 |", "| tokens | 51,200 |",
		"| tokens a second in steps | 10,240 in the loss, 20,480 tokens computed |", "| updates left out (not finite) | 1 |",
		"0.8485 at step 50; best 0.8485 at step 50", "| 25 | 1.2000 | 3.320 | 5,000 |", "    func main() {\n    \ufffd}\n    ```", "layers: 4",
		"|---|---|---|\n| func | a\\|b \ufffd\\<i\\>\\\\ | main() { \ufffd} \\`\\`\\` (step 50) |\n\nStep 0",
	} {
		assert.Contains(t, text, want)
	}
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, names, 6, "metrics, samples, report, pictures of loss, gradient and speed")

	empty := t.TempDir()
	require.NoError(t, report{title: "nothing yet"}.write(empty))
}

// A step that seems to take no time, as its end was noticed with that of the step before, neither decides the axis nor the mean.
func TestPicturesOfSpeed(t *testing.T) {
	var h history
	for i := range 100 {
		ms := 20.0
		switch i {
		case 49:
			ms = 39.99
		case 50:
			ms = 0.01
		}
		h.add(Metrics{Step: int64(i + 1), Cost: Cost{
			StepMS: Number(ms), TokensPerSecond: Number(1e5 / ms), PaddedTokensPerSecond: Number(2e5 / ms), MFU: Number(2 / ms),
		}})
	}
	for _, p := range append(h.speedPanels()[:1], h.usePanels()...) {
		t.Run(p.YLabel, func(t *testing.T) {
			most := map[string]float64{"tokens a second": 10e3, "% of the peak (mfu)": 10}[p.YLabel]
			require.NotZero(t, most)
			assert.InDelta(t, 2*most, p.Top, most/1e6)
			for _, s := range p.Series {
				if s.Faint {
					continue
				}
				for _, q := range s.Points {
					require.LessOrEqual(t, q.Y, most*1.1, "%s at step %g", s.Name, q.X)
				}
				assert.Greater(t, s.Points[99].Y, most/2.1)
			}
		})
	}
}
