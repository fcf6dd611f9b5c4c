package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// What choices take is what each takes by itself, and without textures the optimizer is planned once for all of them.
func TestDryChoices(t *testing.T) {
	for name, dev := range map[string]*gpu.Device{
		"no textures": gpu.Dry(gpu.DefaultLimits()),
		"textures":    gputest.Device(t, func(o *gpu.Options) { o.Texels = gpu.TexelsForce }),
	} {
		t.Run(name, func(t *testing.T) {
			c := plannedConfig(t)
			c.Optimizer.Name, c.Optimizer.Parameters = "quad", nil
			var choices []Job
			for _, c.Recompute = range model.Recomputes {
				choices = append(choices, jobOf(t, c))
			}
			var made []uint64
			err := DryChoices(t.Context(), choices, dev, func(j Job, s *TrainState) (bool, error) {
				alone, err := Dry(t.Context(), j, dev.AsDry())
				require.NoError(t, err)
				defer alone.Release()
				assert.Equal(t, alone.Memory(), s.Memory(), j.Recompute)
				assert.Equal(t, withoutBarriers(alone.Submits()), withoutBarriers(s.Submits()), j.Recompute)
				assert.Equal(t, alone.Work(), s.Work(), j.Recompute)
				made = append(made, s.stages[0].Params.Device().Counters().Buffers)
				return true, nil
			})
			require.NoError(t, err)
			require.Len(t, made, len(model.Recomputes))
			if name == "no textures" {
				assert.Less(t, made[2], 2*made[0], "buffers made for all choices")
			}
		})
	}
}

// withoutBarriers are submits but for their barriers: what collects the loss of a dry state still reads the first choice's.
func withoutBarriers(submits [][]gpu.Planned) [][]gpu.Planned {
	for _, stage := range submits {
		for i := range stage {
			stage[i].Barriers = 0
		}
	}
	return submits
}
