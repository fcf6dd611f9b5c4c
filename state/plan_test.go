package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// plannedConfig is large enough that buffers of a few bytes do not decide.
func plannedConfig(t *testing.T) Config {
	t.Helper()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 3, Heads: 4, Width: 64, Vocab: 256, Context: 64})
	require.NoError(t, err)
	return Config{Definition: def, Optimizer: tinyOptimizer(), Batch: 4, Seed: 1, Evaluation: 4, Sampling: true}
}

func TestPlanIsWhatIsTaken(t *testing.T) {
	for _, accumulate := range []int{1, 2} {
		dev := gputest.Device(t)
		c := plannedConfig(t)
		c.Microbatches, c.Rows, c.Recompute = accumulate, 3, model.Recomputes[accumulate]
		plan, err := Plan(t.Context(), jobOf(t, c), dev.Limits())
		require.NoError(t, err)
		before := dev.Counters().LiveBytes
		s := create(t, dev, c)
		_, err = s.Params().Read(t.Context(), "wte.weight") // the transfer buffer
		require.NoError(t, err)
		taken := dev.Counters().LiveBytes - before
		t.Logf("accumulate %d: planned %d bytes (%s), taken %d", accumulate, plan.Total(), plan, taken)
		assert.InEpsilon(t, taken, plan.Total(), 0.05)
		assert.Equal(t, plan, s.Memory()[0])
		s.Release()
		assert.LessOrEqual(t, dev.Counters().LiveBytes-before, plan.Transfer, "all is given back but the device's own transfer buffer")
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	c := plannedConfig(t)
	c.Batch, c.Recompute = 8, model.RecomputeLayers // so that nothing is left but to be smaller
	whole, err := Plan(t.Context(), jobOf(t, c), gpu.DefaultLimits())
	require.NoError(t, err)
	for _, test := range []struct {
		name  string
		limit uint64
		hint  string
	}{
		{"batch", whole.Total() - whole.Step/4, "lower batch from 8 to 4 (and raise accumulate from 1 to 2 for the same updates): "},
		{"context", whole.Params + whole.Gradients + whole.Optimizer + whole.Transfer + whole.Step/16, "lower context from 64 to"},
		{"model", whole.Params * 3, "choose a smaller model"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dev := gputest.Device(t, gputest.WithMemoryLimit(test.limit), func(o *gpu.Options) { o.Texels = gpu.TexelsOff }) // as the limits above
			before := dev.Counters()
			_, err := Create(t.Context(), dev, c)
			var memory *MemoryError
			require.ErrorAs(t, err, &memory)
			require.ErrorIs(t, err, gpu.ErrOutOfMemory)
			assert.ErrorContains(t, err, test.hint)
			assert.ErrorContains(t, err, "the memory limit is")
			assert.Equal(t, before.Buffers, dev.Counters().Buffers, "nothing was taken")
		})
	}
}

func TestBindingTooSmallForATensor(t *testing.T) {
	c := plannedConfig(t)
	_, err := Plan(t.Context(), jobOf(t, c), gpu.Limits{BindingBytes: 4096, BufferBytes: 1 << 30, StorageAlign: 256, UniformAlign: 256, StorageBuffers: 8, Invocations: 256, WorkgroupBytes: 16384, Workgroups: 65535})
	var limit *gpu.LimitError
	require.ErrorAs(t, err, &limit)
}
