package kron

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/gpu/gputest"
)

// TestDenseStagesHaveTheSameBits: states of one leaf each make the bits of the state of all, also where factors are rounded at random.
func TestDenseStagesHaveTheSameBits(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, method := range []Method{Quad, Skew} {
			c := denseConfig(method, buffers.BF16, Stable())
			whole := newRig(t, d, c, denseLeaves...)
			var stages []*rig
			for _, l := range denseLeaves {
				r := newRig(t, d, c, l)
				state, err := NewState(d, whole.plan, r.tree.Layout()) // of the plan of all leaves
				require.NoError(t, err)
				t.Cleanup(state.Release)
				r.state, r.plan = state, whole.plan
				stages = append(stages, r)
			}
			for n := int64(99); n <= 101; n++ {
				g := whole.gradientsOf(n, 0.1)
				want := whole.run(n, g, false, false)
				for _, r := range stages {
					for path, got := range r.run(n, g, false, false) {
						require.Equal(t, want[path], got, "%s update %d: %s", method, n, path)
					}
				}
			}
			// Bounds have no padding: those of the stages, one after the other, are those of all.
			for _, name := range []string{"dense/Ll", "dense/Lr", "dense/rms"} {
				var parts []float32
				for _, r := range stages {
					parts = append(parts, r.tensors()[name]...)
				}
				assert.Equal(t, whole.tensors()[name], parts, name)
			}
		}
	})
}
