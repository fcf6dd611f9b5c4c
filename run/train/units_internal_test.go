package train

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// withUnits is a target whose devices say that they have matrix units.
type withUnits struct{ Target }

func (w withUnits) Devices() []*gpu.Device {
	d := w.Target.Devices()[0]
	l := d.Limits()
	l.Matrix = gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 8, N: 8, K: 8}}, Lanes: 8, Subgroups: 64}
	return []*gpu.Device{gpu.DryOf(d.Adapter(), l)}
}

// A run does not resume on other matrix units than those that made its products, and in f32 it does not matter which there are.
func TestOtherUnits(t *testing.T) {
	dev := gputest.Device(t)
	for _, rounds := range []bool{true, false} {
		c := killedRun(t, t.TempDir())
		c.State.RoundProducts = rounds
		c.Steps = 2
		ran(t, dev, c)
		o := &opening{trainer: &trainer{config: c, team: &team{}}}
		o.team.target = withUnits{oneDevice{device: dev}}
		if !rounds {
			assert.Empty(t, o.units())
			continue
		}
		assert.Equal(t, "8x8x8", o.units())
		_, err := RunOn(t.Context(), withUnits{oneDevice{device: dev}}, c)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed)
		assert.Equal(t, []string{"device.matrix (products of f16)", "no matrix units", "matrix units of 8x8x8"}, []string{changed.Key, changed.Found, changed.Wanted})
	}
}
