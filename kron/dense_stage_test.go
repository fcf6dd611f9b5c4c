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
			requireJoined(t, whole, stages)
		}
	})
}

// requireJoined compares the tensors of several states, put together, with those of the whole one; then it writes other values into the
// whole through each and compares again.
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

// TestDividedStackOnDevices: one dense stack over several devices, in runs of its global index and padded to one length, other leaves
// each in one place. A device rewrites its blocks alone, and its tensors, one after the other, are those of all.
func TestDividedStackOnDevices(t *testing.T) {
	leaves := append([]Leaf{{Path: "bias", Shape: []int{19}}, {Path: "tall", Shape: []int{50, 9}}}, denseLeaves...)
	at := map[string]int{}
	for i, l := range leaves {
		at[l.Path] = i % 2
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for method, dtype := range map[Method]buffers.DType{Quad: buffers.BF16, Skew: buffers.F32} {
			c := denseConfig(method, dtype, Stable())
			c.MaxSizeDense = 48 // "tall" has a diagonal side
			for _, axis := range []int{1, 3, 4} {
				whole := newRig(t, d, c, leaves...)
				placement, err := whole.plan.Place(at, axis)
				require.NoError(t, err)
				var devices []*rig
				for _, part := range placement.Parts {
					r := newRig(t, d, c, leaves...)
					r.state, err = NewStateOf(d, whole.plan, r.tree.Layout(), part)
					require.NoError(t, err)
					t.Cleanup(r.state.Release)
					devices = append(devices, r)
				}
				for n := int64(99); n <= 101; n++ {
					g := whole.gradientsOf(n, 0.1)
					want := whole.run(n, g, false, false)
					seen := map[string]int{} // elements that some device rewrote
					for i, r := range devices {
						mine := whole.plan.elements(placement.Parts[i])
						for path, got := range r.run(n, g, false, false) {
							for k, v := range got {
								if mine[path][k] {
									seen[path]++
									require.Equal(t, want[path][k], v, "%s of %d, update %d: %s[%d]", method, axis, n, path, k)
								} else {
									require.Equal(t, g[path][k], v, "%s[%d] is another device's", path, k)
								}
							}
						}
					}
					for path, v := range want {
						require.Len(t, v, seen[path], path)
					}
				}
				joined := map[string][]float32{}
				for _, r := range devices {
					for name, v := range r.tensors() {
						joined[name] = append(joined[name], v...)
					}
				}
				for name, v := range whole.tensors() {
					require.Equal(t, v, joined[name][:len(v)], name)
				}
				padded := whole.plan.DenseBlocks() + placement.Padding()
				assert.Zero(t, padded%axis)
				assert.Len(t, joined["dense/Ll"], padded)
				for _, l := range joined["dense/Ll"][whole.plan.DenseBlocks():] {
					assert.InDelta(t, 1, l, 0)
				}
				for i, r := range devices {
					require.Equal(t, tensorsByName(NewTwinOf(whole.plan, placement.Parts[i]).Tensors())["dense/valid_rows"].Data, r.tensors()["dense/valid_rows"])
				}
				requireJoined(t, whole, devices)
			}
		}
	})
	_, err := NewStateOf(gpu.Dry(gpu.Limits{}), newRig(t, gpu.Dry(gpu.Limits{}), denseConfig(Quad, buffers.F32, Stable()), leaves...).plan,
		numbered(t, gpu.Dry(gpu.Limits{}), leaves[:2]).Layout(), Part{Dense: []int{4}})
	assert.ErrorContains(t, err, "not in the layout")
}

// elements tells which elements of each leaf are in a part's blocks.
func (p *Plan) elements(part Part) map[string][]bool {
	out := map[string][]bool{}
	for _, m := range p.Leaves {
		out[m.Path] = make([]bool, m.Batch*m.Rows*m.Cols)
	}
	blocks := append([]int{}, part.Dense...)
	for _, i := range part.Own {
		for b := range p.Leaves[i].Blocks {
			blocks = append(blocks, p.Leaves[i].First+b)
		}
	}
	for _, i := range blocks {
		b := p.Blocks[i]
		m := p.Leaves[b.Leaf]
		for r := range b.Rows {
			for c := range b.Cols {
				out[m.Path][(b.Batch*m.Rows+b.Row+r)*m.Cols+b.Col+c] = true
			}
		}
	}
	return out
}
