package kron

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
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
			// Bounds have no padding: the bounds of the stages, one after the other, are the bounds of all.
			for _, name := range []string{"dense/Ll", "dense/Lr", "dense/rms"} {
				var parts []float32
				for _, r := range stages {
					parts = append(parts, r.tensors()[name]...)
				}
				assert.Equal(t, whole.tensors()[name], parts, name)
			}
			requireJoined(t, whole, stages)
		}
	})
}

// requireJoined compares the tensors of several states, put together, with the whole state's tensors. Then it writes
// other values into the whole through each and compares again.
func requireJoined(t *testing.T, whole *rig, parts []*rig) {
	t.Helper()
	var pieces []buffers.Tensor
	for _, r := range parts {
		pieces = append(pieces, r.state.Tensors()...)
	}
	joined, err := buffers.Join(pieces)
	require.NoError(t, err)
	want := map[string]buffers.Tensor{}
	for _, tensor := range whole.state.Tensors() {
		require.Nil(t, tensor.Rows, tensor.Name)
		want[tensor.Name] = tensor
	}
	require.Len(t, joined, len(want))
	for _, got := range joined {
		w := want[got.Name]
		require.Equal(t, w.Shape, got.Shape, got.Name)
		require.Equal(t, w.DType, got.DType, got.Name)
		a, err := w.Read(t.Context())
		require.NoError(t, err)
		b, err := got.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, a, b, got.Name)
		if got.DType == buffers.I32 {
			require.NoError(t, got.Write(a))
			continue
		}
		for i := range a {
			a[i] ^= byte(i) & 0x3f
		}
		require.NoError(t, w.Write(a))
		require.NoError(t, got.Write(a))
		a, err = w.Read(t.Context())
		require.NoError(t, err)
		c, err := got.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, a, c, got.Name)
		require.NotEqual(t, b, c, got.Name)
	}
}
