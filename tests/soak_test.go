package tests

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/run/tensorboard"
	"gputrain/run/train"
)

// footprint is what a process holds.
type footprint struct {
	resident            uint64 // bytes of the process, C and driver included; 0 where the system does not tell
	device, buffers     uint64 // bytes and number of buffers on the devices
	pipelines, bindings uint64 // made so far
	goroutines          int
	files               int // open; 0 where the system does not tell
}

func footprintOf(t *testing.T, devices ...*gpu.Device) footprint {
	t.Helper()
	debug.FreeOSMemory() // collects, and gives back what is free
	f := footprint{goroutines: runtime.NumGoroutine()}
	for _, d := range devices {
		c := d.Counters()
		f.device, f.buffers, f.pipelines, f.bindings = f.device+c.LiveBytes, f.buffers+c.LiveBuffers, f.pipelines+c.Pipelines, f.bindings+c.BindGroups
	}
	if raw, err := os.ReadFile("/proc/self/statm"); err == nil {
		pages, err := strconv.ParseUint(string(bytes.Fields(raw)[1]), 10, 64)
		require.NoError(t, err)
		f.resident = pages * uint64(os.Getpagesize())
		open, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		f.files = len(open)
	}
	return f
}

// A long run holds no more at its end than after its first tenth: 20,000 steps in the long form, otherwise 500, with evaluation,
// samples, histograms, event files, spike guards, accumulation and dropout, and checkpoints that are written beside the steps and rotated.
func TestSoakMemoryIsFlat(t *testing.T) {
	gputest.Long(t, "state.TestSoak")
	total := int64(500)
	if soak() {
		total = 20_000
	}
	p, dev := newPlace(t), gputest.Device(t)
	c := tinyConfig(t, p, "run", 1, total)
	c.SaveEvery, c.HistogramEvery, c.Spikes = train.Every(25), 10, train.SpikeConfig{Loss: 100, GradNorm: 100, UpdateNorm: 100}
	c.Hooks = []train.Hook{tensorboard.NewHook(c.Dir)}
	flat := watchFlat(t, &c, dev)
	_, err := train.Run(t.Context(), dev, c)
	require.NoError(t, err)
	flat()
	assert.LessOrEqual(t, dev.Counters().LiveBytes, uint64(64<<10), "the run has given everything back, but for what a device keeps for reading")
}

// lastSteps are looked at at the end of a long run: a checkpoint may be under way in one of them, with a file and a goroutine of its own.
const lastSteps = 20

// orLess is the footprint with fewer files and goroutines, f unless it is none.
func (f footprint) orLess(other footprint) footprint {
	if f.device != 0 && f.files+f.goroutines <= other.files+other.goroutines {
		return f
	}
	return other
}

// watchFlat watches a long run, and asserts once it is over that it has held no more at its end than early on.
func watchFlat(t *testing.T, c *train.Config, devices ...*gpu.Device) (flat func()) {
	var early, late footprint
	c.Hooks = append(c.Hooks, train.HookFunc(func(_ context.Context, e train.Event) error {
		switch {
		case e.Kind != train.StepBegin:
		case e.Step == c.Steps/10:
			early = footprintOf(t, devices...)
		case e.Step%(c.Steps/10) == 0:
			t.Logf("step %d: %+v", e.Step, footprintOf(t, devices...))
		case e.Step >= c.Steps-lastSteps:
			late = late.orLess(footprintOf(t, devices...))
		}
		return nil
	}))
	return func() {
		t.Helper()
		t.Logf("after a tenth %+v", early)
		t.Logf("at the end    %+v", late)
		require.NotZero(t, early.device)
		assert.Equal(t, early.device, late.device)
		assert.Equal(t, early.buffers, late.buffers)
		assert.Equal(t, early.pipelines, late.pipelines)
		assert.Equal(t, early.bindings, late.bindings)
		assert.LessOrEqual(t, late.goroutines, early.goroutines)
		assert.LessOrEqual(t, late.files, early.files)
		// The driver and the allocators keep some of what they once had. A leak of 250 B a step would be 4.5 MB in the long form.
		assert.Less(t, late.resident, early.resident+4<<20)
	}
}
