package optim

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// Scaled gradients give the bits of those that are not, in params, state and what is measured, whatever the scale of each call; limits hold the gradient
// without its scale; and the twin follows.
func TestUnscale(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		chain := SkipNonFinite(guardedChains()["behind operators"])
		of := func(tx Transform) Transform { return GuardUpdates(Guard{Losses: 2}, tx) }
		r := rand.New(rand.NewPCG(9, 9))
		params := randomTree(r, oddSpecs, 1)
		plain, scaled := newRig(t, d, of(chain), params, buffers.F32), newRig(t, d, of(Unscale(chain)), params, buffers.F32)
		twin, err := NewTwin(of(Unscale(chain)), params)
		require.NoError(t, err)
		for i, scale := range []float64{1, 1 << 14, 1 << 14, 1 << 15, 0x1p-3} {
			if i > 0 { // 1 at first
				require.NoError(t, scaled.state.SetScale(scale))
				twin.Scale(scale)
			}
			c := guardCall{limits: Limits{GradNorm: 1e3}}
			if i == 2 {
				c.grad = 2e3
			}
			for _, s := range []*State{plain.state, scaled.state} {
				require.NoError(t, s.SetLimits(c.limits))
			}
			twin.Guard(c.limits)
			grads := gradsOf(r, c)
			plain.call(grads)
			for _, h := range grads {
				for k := range h.Data {
					h.Data[k] *= float32(scale)
				}
			}
			scaled.call(grads)
			require.NoError(t, twin.Update(grads))
			assert.Equal(t, plain.everything(), scaled.everything(), "call %d", i)
			assert.Equal(t, plain.statistics(), scaled.statistics(), "call %d", i)
			assert.Equal(t, i == 2, scaled.statistics().Spikes == SpikeGradNorm, "call %d", i)
			near(t, "params", scaled.download(scaled.params), twin.Params(), 2e-6, 2e-6)
		}
	}, small)
	dev := newRig(t, gputest.Device(t), Unscale(Trace(0.9, false)), randomTree(rand.New(rand.NewPCG(1, 1)), oddSpecs, 1), buffers.F32)
	require.ErrorContains(t, dev.state.SetScale(3), "scale: found 3, wanted a power of two")
	_, err := NewTwin(Unscale(Unscale(Trace(0.9, false))), nil)
	require.ErrorContains(t, err, "unscale: inner: found unscale(trace)")
}
