package tests

import (
	"bytes"
	"context"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data/texts"
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
	p := newPlace(t)
	corpus, err := texts.Open(t.Context(), texts.Config{Text: []string{p.path("text.txt")}, Validation: 0.1, Context: 16})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 16, Vocab: 256, Context: 16, ResidualDropout: 0.1})
	require.NoError(t, err)
	dev := gputest.Device(t)
	const staging = uint64(64 << 10) // what a device keeps for reading, once it has read

	var early, late footprint
	config := train.Config{
		Train: corpus.Train, Validation: corpus.Validation, Prefetch: 2,
		Options: train.Options{
			Steps: total, EvalEvery: 20, EvalTokens: 64, SaveEvery: train.Every(25), SaveAsync: true, Keep: 2,
			HistogramEvery: 10, Spikes: train.SpikeConfig{Loss: 100, GradNorm: 100, UpdateNorm: 100},
			SampleEvery: 50, Sample: train.SampleConfig{Prompt: "line", Tokens: 4, Temperature: 1, Seed: 3},
		},
		Dir: p.path("run"), Progress: "none", Output: io.Discard,
		Hooks: []train.Hook{tensorboard.NewHook(p.path("run")), train.HookFunc(func(_ context.Context, e train.Event) error {
			switch {
			case e.Kind == train.StepBegin && e.Step == total/10:
				early = footprintOf(t, dev)
			case e.Kind == train.StepBegin && e.Step%(total/10) == 0:
				t.Logf("step %d: %+v", e.Step, footprintOf(t, dev))
			case e.Kind == train.StepBegin && e.Step >= total-lastSteps:
				late = late.orLess(footprintOf(t, dev))
			}
			return nil
		})},
	}
	config.State.Definition, config.State.Batch, config.State.Microbatches, config.State.Seed = def, 2, 2, 5
	config.State.Optimizer = optim.Config{Name: "adamw", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1e-3}}}
	_, err = train.Run(t.Context(), dev, config)
	require.NoError(t, err)

	requireFlat(t, early, late)
	assert.LessOrEqual(t, dev.Counters().LiveBytes, staging, "the run has given everything back")
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

// requireFlat asserts that a long run holds no more at its end than early on.
func requireFlat(t *testing.T, early, late footprint) {
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
