package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestMeasuredPowerIsPlausibleQuickAndRemembered(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	dev := gputest.Device(t)
	start := time.Now()
	first, err := measuredPower(context.Background(), dev.Adapter())
	took := time.Since(start)
	require.NoError(t, err)
	assert.Greater(t, first.FLOPS, 1e6)
	assert.Less(t, first.FLOPS, 1e15)
	assert.Greater(t, first.BytesPerSecond, 1e5)
	assert.Less(t, first.BytesPerSecond, 1e13)
	t.Logf("%s: %.1f GFLOP/s, %.2f GB/s, measured in %v", dev.Adapter(), first.FLOPS/1e9, first.BytesPerSecond/1e9, took)

	path := dev.Adapter().CacheFile("power")
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "power-*"))
	require.NoError(t, err)
	assert.Equal(t, []string{path}, files)
	again, err := measuredPower(context.Background(), dev.Adapter())
	require.NoError(t, err)
	assert.Equal(t, first, again, "a second measurement would differ")

	for _, damaged := range []string{"", "{", `{"version": 2, "flops": 1, "bytes_per_second": 1}`, `{"version": 1, "flops": 0, "bytes_per_second": 1}`} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o644))
		_, ok := readPower(path)
		assert.False(t, ok, damaged)
	}
	anew, err := measuredPower(context.Background(), dev.Adapter())
	require.NoError(t, err)
	kept, ok := readPower(path)
	assert.True(t, ok)
	assert.Equal(t, anew, kept.Speed)
}

// A figure of a busy machine is bettered: the peak is the best of the first few trials, and what cuts are made by stays.
func TestPeakIsTheBestOfSomeTrials(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	a := gpu.Adapter{Name: "some adapter", Backend: "vulkan", Driver: "1"}
	rates := []float64{12e9, 30e9, 25e9, 11e9, 40e9, 99e9}
	for i, want := range []float64{12e9, 30e9, 30e9, 30e9, 40e9, 40e9} {
		found, err := figures(a, peakTrials, func() (gpu.Speed, error) { return gpu.Speed{FLOPS: rates[i], BytesPerSecond: 1e9}, nil })
		require.NoError(t, err)
		assert.InEpsilon(t, want, found.Peak, 1e-12, "call %d", i+1)
	}
	kept, ok := readPower(a.CacheFile("power"))
	require.True(t, ok)
	assert.Equal(t, gpu.Speed{FLOPS: 12e9, BytesPerSecond: 1e9}, kept.Speed)
	_, err := figures(gpu.Adapter{Name: "another"}, peakTrials, func() (gpu.Speed, error) { return gpu.Speed{}, errors.New("lost") })
	require.Error(t, err)
}

// The peak of several devices is what was measured of each adapter, once an adapter; after the trials nothing is measured again.
func TestPeakCountsAnAdapterOnce(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	dev := gputest.Device(t)
	a := dev.Adapter()
	require.NoError(t, writePower(a.CacheFile("power"), powerFile{Version: powerVersion, Speed: gpu.Speed{FLOPS: 1e9, BytesPerSecond: 4e6}, Peak: 123e9, Trials: peakTrials}))
	before := dev.Counters().Submits
	for _, devices := range [][]*gpu.Device{{dev}, {dev, dev, dev}} {
		peak, err := Peak(context.Background(), devices)
		require.NoError(t, err)
		assert.InEpsilon(t, 123e9, peak, 1e-12)
	}
	assert.Equal(t, before, dev.Counters().Submits)
	for _, other := range gputest.Adapters(t) {
		if kindOf(other) == kindOf(a) {
			continue
		}
		d, err := gpu.Open(context.Background(), other, gpu.Options{Timeout: time.Minute})
		require.NoError(t, err)
		t.Cleanup(d.Release)
		require.NoError(t, writePower(other.CacheFile("power"), powerFile{Version: powerVersion, Speed: gpu.Speed{FLOPS: 1e8, BytesPerSecond: 4e6}, Peak: 1e9, Trials: peakTrials}))
		peak, err := Peak(context.Background(), []*gpu.Device{dev, d, dev})
		require.NoError(t, err)
		assert.InEpsilon(t, 124e9, peak, 1e-12)
		break
	}
}

func TestEqualAdaptersAreNotMeasured(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	dev := gputest.Device(t)
	before := dev.Counters().Submits
	powers, err := Powers(context.Background(), []*gpu.Device{dev, dev, dev})
	require.NoError(t, err)
	assert.Equal(t, before, dev.Counters().Submits)
	assert.Len(t, powers, 3)
	for _, p := range powers {
		assert.InEpsilon(t, dev.Adapter().Typical().FLOPS/3, p.FLOPS, 1e-12)
		assert.Equal(t, powers[0].BytesPerSecond, p.BytesPerSecond)
	}
	assert.NoFileExists(t, dev.Adapter().CacheFile("power"))
}

// Stages on adapters of different kinds have the power of theirs; two on one adapter share it.
func TestMixedAdaptersHaveThePowerOfTheirKind(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	all := gputest.Adapters(t)
	if len(all) < 2 {
		t.Skip("skipped, needs two kinds of adapters")
	}
	var devs []*gpu.Device
	for i, a := range all[:2] {
		d, err := gpu.Open(context.Background(), a, gpu.Options{MemoryLimit: 1 << 28, Timeout: time.Minute})
		require.NoError(t, err)
		t.Cleanup(d.Release)
		devs = append(devs, d)
		require.NoError(t, writePower(a.CacheFile("power"), powerFile{Version: powerVersion, Speed: gpu.Speed{FLOPS: 1e9 * float64(i+1), BytesPerSecond: 4e6}}))
	}
	powers, err := Powers(context.Background(), []*gpu.Device{devs[0], devs[1], devs[1]})
	require.NoError(t, err)
	for i, want := range []gpu.Speed{{FLOPS: 1e9, BytesPerSecond: 4e6}, {FLOPS: 1e9, BytesPerSecond: 2e6}, {FLOPS: 1e9, BytesPerSecond: 2e6}} {
		assert.Equal(t, want, powers[i].Speed, i)
		assert.LessOrEqual(t, powers[i].Memory, uint64(1<<28))
		assert.NotZero(t, powers[i].Memory)
	}
}
