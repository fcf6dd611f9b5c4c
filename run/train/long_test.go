package train

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run of very many steps is resumed and reported from metrics.jsonl: a million steps take some seconds. GPUTRAIN_SOAK takes as many.
func TestSoakLongRun(t *testing.T) {
	steps := int64(100_000)
	if os.Getenv("GPUTRAIN_SOAK") == "1" {
		steps = 1_000_000
	}
	dir := t.TempDir()
	path := filepath.Join(dir, metricsFile)
	f, err := os.Create(path)
	require.NoError(t, err)
	out := bufio.NewWriter(f)
	for step := int64(1); step <= steps; step++ {
		line, err := json.Marshal(Metrics{Step: step, Loss: Number(math.Sin(float64(step))), Tokens: 64 * step, Cost: Cost{StepMS: Number(20 + math.Cos(float64(step)))}})
		require.NoError(t, err)
		_, err = out.Write(append(line, '\n'))
		require.NoError(t, err)
		if step%1000 == 0 {
			fmt.Fprintf(out, `{"step":%d,"eval_loss":%d,"eval_tokens":64,"eval_ms":1}`+"\n", step, step)
		}
	}
	require.NoError(t, out.Flush())
	require.NoError(t, f.Close())

	began := time.Now()
	require.NoError(t, report{title: "long"}.write(dir))
	t.Logf("report of %d steps: %v", steps, time.Since(began))
	text := textAt(t, dir, reportFile)
	assert.Contains(t, text, fmt.Sprintf("| steps | %s |", grouped(steps)))
	assert.Equal(t, steps/1000, int64(strings.Count(text, " | 64 |\n")))

	// Resumed from a checkpoint in the midst.
	began = time.Now()
	half := steps/2 + 500
	l, err := openLines(nil, path, half)
	require.NoError(t, err)
	require.NoError(t, l.close())
	t.Logf("resumed at step %d: %v", half, time.Since(began))
	assert.Equal(t, half, l.last)
	assert.Equal(t, half, l.lastOfStep)
	assert.Contains(t, string(l.eval), fmt.Sprintf(`{"step":%d,`, steps/2))
}
