package fit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
)

// small is a job whose recomputation is left to the memory there is.
func small(t *testing.T) state.Job {
	def, err := model.New("gpt2", model.Keys{Layers: 3, Heads: 2, Width: 16, Vocab: 64, Context: 64})
	require.NoError(t, err)
	job, err := state.NewJob(state.Config{
		Definition: def, Optimizer: optim.Config{Name: "adamw", Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1e-3, Steps: 1}}},
		Batch: 4, Microbatches: 2, Sequence: 64, Recompute: state.RecomputeAuto,
	})
	require.NoError(t, err)
	return job
}

// On one device and on stages each choice takes what a run of it alone would take, and the search ends where it is told to.
func TestChoicesTakeWhatEachTakesAlone(t *testing.T) {
	job := small(t)
	built, err := job.Build()
	require.NoError(t, err)
	units, err := partition.Units(built)
	require.NoError(t, err)
	cut, err := partition.Auto(units, 2, 1, nil)
	require.NoError(t, err)
	for name, on := range map[string]On{
		"one device": {Devices: []*gpu.Device{gpu.Dry(gpu.DefaultLimits())}},
		"two stages": {Config: pipeline.Config{Assignment: cut, Schedule: "gpipe"}, Devices: []*gpu.Device{gpu.Dry(gpu.DefaultLimits()), gpu.Dry(gpu.DefaultLimits())}},
	} {
		var all []Takes
		require.NoError(t, on.Choices(t.Context(), job.Choices(), func(found Takes) (bool, error) {
			all = append(all, found)
			return true, nil
		}), name)
		require.Len(t, all, len(model.Recomputes), name)
		for i, found := range all {
			assert.Equal(t, model.Recomputes[i], found.Job.Recompute, name)
			alone, err := on.Memory(t.Context(), found.Job)
			require.NoError(t, err)
			assert.Equal(t, alone, found.Memory, "%s: %s", name, found.Job.Recompute)
			assert.Len(t, found.Submits, len(on.Devices))
			assert.Positive(t, found.Host.Copy)
			assert.True(t, found.Fits, "nothing tells how much memory there is")
			sum, most := uint64(0), uint64(0)
			for _, m := range alone {
				sum, most = sum+m.Total(), max(most, m.Total())
			}
			assert.Equal(t, [2]uint64{sum, most}, [2]uint64{found.Bytes(), found.Most()})
		}
		assert.Greater(t, all[0].Bytes(), all[len(all)-1].Bytes(), "%s: what is computed again is not kept", name)
		seen := 0
		require.NoError(t, on.Choices(t.Context(), job.Choices(), func(Takes) (bool, error) {
			seen++
			return false, nil
		}))
		assert.Equal(t, 1, seen)
	}
}

// What the run begins with is on the device already.
func TestTakenIsNotTakenAgain(t *testing.T) {
	dev := gpu.Dry(gpu.DefaultLimits())
	on := On{Devices: []*gpu.Device{dev}}
	job := small(t).Choices()[0]
	first, err := on.Takes(t.Context(), job)
	require.NoError(t, err)
	dev.AssumeMemory(first.Bytes() - 100)
	for taken, fits := range map[uint64]bool{0: false, 99: false, 100: true} {
		on.Taken = taken
		found, err := on.Takes(t.Context(), job)
		require.NoError(t, err)
		assert.Equal(t, fits, found.Fits, "%d bytes", taken)
	}
}
