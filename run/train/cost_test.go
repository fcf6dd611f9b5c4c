package train

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/run/data"
	"gputrain/state"
)

// slowBatches are those of a loader, each late, half of whose labels do not count.
type slowBatches struct {
	*data.Loader
	late time.Duration
}

func (s slowBatches) Next(ctx context.Context) (data.Batch, error) {
	time.Sleep(s.late)
	b, err := s.Loader.Next(ctx)
	for i := range b.Labels {
		if i%2 == 0 {
			b.Labels[i] = data.Ignored
		}
	}
	b.Count /= 2
	return b, err
}

// What a line says of time and work is what its step has computed, and of its clip what the optimizer does.
func TestCostOfSteps(t *testing.T) {
	const peak, late = 3e9, 15 * time.Millisecond
	dir := t.TempDir()
	c := tinyRun(t, dir)
	c.EvalEvery, c.SampleEvery, c.SaveEvery = 0, 0, nil // nothing between the steps
	c.Peak = func(context.Context) (float64, error) { return peak, nil }
	shape := c.withDefaults().State
	each := data.LoaderConfig{Context: shape.Sequence, Batch: shape.Batch * shape.Microbatches, Seed: 3}
	c.Batches = func(from data.State) (BatchSource, error) {
		own := each
		own.State = from
		l, err := data.NewLoader(c.Train, own)
		return slowBatches{l, late}, err
	}
	begin := time.Now()
	result := ran(t, gputest.Device(t), c)
	elapsed := milliseconds(time.Since(begin))
	steps := stepsIn(t, dir)
	require.Len(t, steps, 12)
	job, err := state.NewJob(shape)
	require.NoError(t, err)
	flops, err := job.FLOPs()
	require.NoError(t, err)
	work := 0.0
	for _, n := range flops {
		work += float64(n)
	}
	loader, err := data.NewLoader(c.Train, each)
	require.NoError(t, err)
	positions := float64(each.Batch * each.Context)
	all, device := 0.0, 0.0
	for i, m := range steps {
		seconds := float64(m.StepMS) / 1000
		assert.InEpsilon(t, positions, float64(m.PaddedTokensPerSecond)*seconds, 1e-9)
		assert.InEpsilon(t, positions/2, float64(m.TokensPerSecond)*seconds, 1e-9)
		assert.InEpsilon(t, work/peak, float64(m.MFU)*seconds, 1e-9)
		assert.GreaterOrEqual(t, float64(m.DataWaitMS), milliseconds(late))
		assert.Positive(t, m.DeviceMS)
		assert.InDelta(t, min(float64(m.GradNorm), 1), float64(m.GradNormClipped), 1e-12)
		assert.NotZero(t, m.DeviceBytes)
		assert.GreaterOrEqual(t, m.DevicePeakBytes, m.DeviceBytes)
		b, err := loader.Next(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, b.Epochs, float64(m.Epoch), 1e-12, "step %d", i+1)
		all, device = all+float64(m.StepMS), device+float64(m.DeviceMS)
	}
	assert.Less(t, all, elapsed, "steps come one after the other")
	assert.LessOrEqual(t, device, all)
	assert.LessOrEqual(t, whole(result.Times), result.Elapsed)
	assert.GreaterOrEqual(t, spanOf(result, spanData), 12*late)
	report := textAt(t, dir, reportFile)
	for _, want := range []string{"| peak | 3.0 GFLOP/s in f32 products, measured |", "% of the peak (mfu)", "](use.svg)", "| wait for data |", "## Time", "## Memory", "| **all** |"} {
		assert.Contains(t, report, want)
	}
}

func spanOf(r Result, name string) time.Duration {
	for _, s := range r.Times {
		if s.Name == name {
			return s.Spent
		}
	}
	return -1
}

// What the devices can do may be unknown: that is said, and the run has no mfu.
func TestPeakThatIsNotKnown(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	c := tinyRun(t, dir)
	c.Steps, c.Output = 2, &out
	c.Peak = func(context.Context) (float64, error) { return 0, errors.New("no clock") }
	ran(t, gputest.Device(t), c)
	assert.Contains(t, out.String(), "warning: no clock: metrics have no mfu")
	assert.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f]`, out.String(), "what is no terminal gets no control characters")
	raw := textAt(t, dir, metricsFile)
	assert.NotContains(t, raw, "mfu")
	assert.NoFileExists(t, filepath.Join(dir, usePicture))
}
