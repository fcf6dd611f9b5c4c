package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bytesRead is what this process reads of files while it does something.
func bytesRead(t *testing.T, do func()) int64 {
	t.Helper()
	count := func() (n int64) {
		text, err := os.ReadFile("/proc/self/io")
		require.NoError(t, err)
		_, err = fmt.Sscanf(string(text), "rchar: %d", &n)
		require.NoError(t, err)
		return n
	}
	before, began := count(), time.Now()
	do()
	read := count() - before
	t.Logf("%.1f MB read, %v", float64(read)/1e6, time.Since(began).Round(time.Millisecond))
	return read
}

// A run of very many steps resumes by the end of metrics.jsonl, and its report is made of the columns in the index. GPUTRAIN_SOAK takes ten million.
func TestSoakLongRunReadsTheEndAlone(t *testing.T) {
	steps := int64(1_000_000)
	switch {
	case os.Getenv("GPUTRAIN_SOAK") == "1":
		steps = 10_000_000
	case testing.Short():
		steps = 100_000
	}
	dir := t.TempDir()
	path, index := filepath.Join(dir, metricsFile), filepath.Join(dir, columnsFile)
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
	size, err := f.Seek(0, 1)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	open := func(step int64) *lineLog {
		l, err := openLines(nil, path, index, step)
		require.NoError(t, err)
		require.NoError(t, l.close())
		return l
	}
	var first, again *lineLog
	assert.Greater(t, bytesRead(t, func() { first = open(steps) }), size, "it has no index yet, which is built once")
	info, err := os.Stat(index)
	require.NoError(t, err)
	end := size/(steps/4096) + info.Size()/20 // lines that fill no block, headers, and the last line of each block
	assert.Less(t, bytesRead(t, func() { again = open(steps) }), end, "resumed")
	assert.Equal(t, first.extent, again.extent)
	assert.Less(t, bytesRead(t, func() { require.NoError(t, report{title: "long"}.write(dir)) }), info.Size()+end, "report")
	text, err := os.ReadFile(filepath.Join(dir, reportFile))
	require.NoError(t, err)
	assert.Contains(t, string(text), fmt.Sprintf("| steps | %s |", grouped(steps)))
	assert.Equal(t, steps/1000, int64(bytes.Count(text, []byte(" | 64 |\n"))))

	// Resumed from a checkpoint in the midst.
	half := steps/2 + 500
	assert.Less(t, bytesRead(t, func() { again = open(half) }), size/2+end+size/(steps/4096), "and what is cut off is copied")
	assert.Equal(t, half, again.last)
	assert.Equal(t, half, again.lastOfStep)
	assert.Contains(t, string(again.eval), fmt.Sprintf(`{"step":%d,`, steps/2))
}
