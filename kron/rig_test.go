package kron

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
)

// rig is a state on a device next to its twin, with gradients that are the same for both.
type rig struct {
	t      testing.TB
	device *gpu.Device
	plan   *Plan
	state  *State
	tree   *buffers.Tree
	flag   *gpu.Buffer
	twin   *Twin
}

// newRig lays the leaves out in slabs of 16,384 f32.
func newRig(t testing.TB, d *gpu.Device, c Config, leaves ...Leaf) *rig {
	plan, err := NewPlan(leaves, c)
	require.NoError(t, err)
	r := &rig{t: t, device: d, plan: plan, tree: numbered(t, d, leaves)}
	r.flag, err = d.NewBuffer("flag", 16)
	require.NoError(t, err)
	t.Cleanup(r.flag.Release)
	r.state, err = NewState(d, plan, r.tree.Layout())
	require.NoError(t, err)
	t.Cleanup(r.state.Release)
	r.twin, err = NewTwin(plan, nil)
	require.NoError(t, err)
	return r
}

// gradientsOf draws gradients of a size, of which one row is ten times as large as the others.
func (r *rig) gradientsOf(n int64, scale float64) map[string][]float32 {
	rng := rand.New(rand.NewPCG(uint64(n), 77))
	out := map[string][]float32{}
	for _, m := range r.plan.Leaves {
		data := make([]float32, array.Elements(m.Shape))
		for i := range data {
			data[i] = float32(rng.NormFloat64() * scale)
			if m.Cols > 0 && i/m.Cols%7 == 1 {
				data[i] *= 10
			}
		}
		out[m.Path] = data
	}
	return out
}

// run is an update of the device alone; the outputs stay in the tree.
func (r *rig) run(n int64, gradients map[string][]float32, reuse, skip bool) map[string][]float32 {
	r.t.Helper()
	var hosts []buffers.Host
	for _, leaf := range r.tree.Layout().Leaves() {
		hosts = append(hosts, buffers.Host{Path: leaf.Path, Shape: leaf.Shape, Data: gradients[leaf.Path]})
	}
	require.NoError(r.t, r.tree.WriteAll(hosts))
	words := make([]byte, 16)
	if skip {
		words[4] = 1
	}
	require.NoError(r.t, r.device.Write(r.flag.All(), words))
	require.NoError(r.t, r.state.Prepare(n))
	rec := r.device.Record("test")
	r.state.Record(rec, r.tree, r.flag.All(), reuse)
	require.NoError(r.t, rec.Submit(r.t.Context()))
	return downloaded(r.t, r.tree)
}

// update is an update of both; the leaves of the kinds are compared, and tensors with the prefixes.
func (r *rig) update(n int64, gradients map[string][]float32, reuse bool, tolerance float64, prefix string, kinds ...Kind) {
	r.t.Helper()
	got := r.run(n, gradients, reuse, false)
	wide := map[string][]float64{}
	for path, data := range gradients {
		for _, x := range data {
			wide[path] = append(wide[path], float64(x))
		}
	}
	require.NoError(r.t, r.twin.Update(n, wide, reuse, false))
	for _, m := range r.plan.Leaves {
		for _, k := range kinds {
			if m.Kind == k {
				requireNear(r.t, fmt.Sprintf("update %d: %s", n, m.Path), widened(got[m.Path]), wide[m.Path], tolerance)
			}
		}
	}
	device := r.tensors()
	for _, h := range r.twin.Tensors() {
		if strings.HasPrefix(h.Path, prefix) {
			requireNear(r.t, fmt.Sprintf("update %d: %s", n, h.Path), widened(device[h.Path]), widened(h.Data), tolerance)
		}
	}
}

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func narrowed(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// raw is the state as it is saved.
func (r *rig) raw() map[string][]byte {
	out := map[string][]byte{}
	for _, t := range r.state.Tensors() {
		raw, err := t.Read(r.t.Context())
		require.NoError(r.t, err)
		require.Len(r.t, raw, array.Elements(t.Shape)*t.DType.Bits()/8, t.Name)
		out[t.Name] = raw
	}
	return out
}

func (r *rig) restore(raw map[string][]byte) {
	for _, t := range r.state.Tensors() {
		require.NoError(r.t, t.Write(raw[t.Name]))
	}
}

// tensors is the state in numbers.
func (r *rig) tensors() map[string][]float32 {
	out := map[string][]float32{}
	raw := r.raw()
	for _, t := range r.state.Tensors() {
		data := array.Decoded(t.DType, raw[t.Name])
		out[t.Name] = data
	}
	return out
}

// followTwin puts the twin's state into the device's.
func (r *rig) followTwin() {
	f := follower{state: r.state, twin: r.twin}
	require.NoError(r.t, f.restoreTwin())
}
