package kron

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/buffers/prng"
	"gputrain/gpu"
)

// pathRig is a path on a device next to the twin.
type pathRig struct {
	t        testing.TB
	dev      *gpu.Device
	make     makePath
	plan     *Plan
	whole    []Leaf // of the plan
	leaves   []Leaf // those at hand
	updates  *buffers.Tree
	path     path
	twin     *Twin
	scalars  *gpu.Buffer
	flag     *gpu.Buffer
	n        int64
	programs map[bool]*gpu.Program // by reuse
}

type makePath func(*gpu.Device, *Plan, *buffers.Layout) (path, error)

// newPathRig makes the path of some leaves of a plan; nil leaves are all.
func newPathRig(t testing.TB, dev *gpu.Device, make makePath, config Config, whole, leaves []Leaf) *pathRig {
	if leaves == nil {
		leaves = whole
	}
	r := &pathRig{t: t, dev: dev, make: make, whole: whole, leaves: leaves, programs: map[bool]*gpu.Program{}}
	var err error
	r.plan, err = NewPlan(whole, config)
	require.NoError(t, err)
	var specs []buffers.Spec
	var paths []string
	for _, l := range leaves {
		specs, paths = append(specs, buffers.Spec{Path: l.Path, Shape: l.Shape}), append(paths, l.Path)
	}
	r.twin, err = NewTwin(r.plan, paths)
	require.NoError(t, err)
	layout, err := buffers.NewLayout(specs, dev.Limits())
	require.NoError(t, err)
	r.updates, err = buffers.NewTree(dev, "updates", layout, buffers.F32)
	require.NoError(t, err)
	r.scalars, err = dev.NewUniform("scalars", 64)
	require.NoError(t, err)
	r.flag, err = dev.NewBuffer("flag", 16)
	require.NoError(t, err)
	r.path, err = make(dev, r.plan, layout)
	require.NoError(t, err)
	require.NotNil(t, r.path)
	t.Cleanup(func() {
		r.path.Release()
		r.updates.Release()
		r.scalars.Release()
		r.flag.Release()
		for _, p := range r.programs {
			p.Release()
		}
	})
	return r
}

// program records an update, once for each value of reuse.
func (r *pathRig) program(reuse bool) *gpu.Program {
	if r.programs[reuse] == nil {
		rec := r.dev.Record("kron")
		r.path.record(rec, call{updates: r.updates, flag: r.flag.All(), refresh: !reuse, apply: true, scalars: r.scalars.All()})
		p, err := rec.Program(r.t.Context())
		require.NoError(r.t, err)
		r.programs[reuse] = p
	}
	return r.programs[reuse]
}

// gradients draws leaves of different sizes.
func (r *pathRig) gradients(random *rand.Rand) []buffers.Host {
	var out []buffers.Host
	for i, l := range r.leaves {
		h := buffers.Host{Path: l.Path, Shape: l.Shape, Data: make([]float32, array.Elements(l.Shape))}
		scale := []float64{1, 0.03, 7, 0.4}[i%4]
		for k := range h.Data {
			h.Data[k] = float32(random.NormFloat64() * scale)
		}
		out = append(out, h)
	}
	return out
}

// update does update n on both sides and gives what they make of the gradients. With skip the flag is set.
func (r *pathRig) update(grads []buffers.Host, reuse, skip bool) (got, want []buffers.Host) {
	r.n++
	raw := []uint32{uint32(r.n), 0, math.Float32bits(float32(r.plan.Config.rate(r.n))), 0}
	if balances(r.n) {
		raw[1] = 1
	}
	for c := uint64(42); c <= 46; c++ {
		key := prng.NewKey(c).FoldIn(uint32(r.n))
		raw = append(raw, key[0], key[1])
	}
	flag := make([]byte, 16)
	if skip {
		flag[4] = 1
	}
	require.NoError(r.t, r.dev.Write(r.scalars.All(), gpu.Bytes(append(raw, 0, 0))))
	require.NoError(r.t, r.dev.Write(r.flag.All(), flag))
	require.NoError(r.t, r.updates.WriteAll(grads))
	require.NoError(r.t, r.program(reuse).Submit(r.t.Context()))
	got, err := r.updates.Download(r.t.Context())
	require.NoError(r.t, err)

	u := map[string][]float64{}
	for _, g := range grads {
		for _, x := range g.Data {
			u[g.Path] = append(u[g.Path], float64(x))
		}
	}
	require.NoError(r.t, r.twin.Update(r.n, u, reuse, skip))
	for _, g := range got {
		h := buffers.Host{Path: g.Path, Shape: g.Shape}
		for _, x := range u[g.Path] {
			h.Data = append(h.Data, float32(x))
		}
		want = append(want, h)
	}
	return got, want
}

// state is the tensors of the device, in the order of the twin's.
func (r *pathRig) state() []buffers.Host {
	read := map[string]buffers.Host{}
	for _, tensor := range r.path.tensors() {
		raw, err := tensor.Read(r.t.Context())
		require.NoError(r.t, err)
		read[tensor.Name] = buffers.Host{Path: tensor.Name, Shape: tensor.Shape, Data: array.Decoded(tensor.DType, raw)}
	}
	var out []buffers.Host
	for _, w := range r.twin.Tensors() {
		h, ok := read[w.Path]
		require.True(r.t, ok, "no tensor %s", w.Path)
		require.Equal(r.t, w.Shape, h.Shape, w.Path)
		out = append(out, h)
		delete(read, w.Path)
	}
	require.Empty(r.t, read)
	return out
}

// raw is the bytes of all tensors.
func (r *pathRig) raw() map[string][]byte {
	out := map[string][]byte{}
	for _, tensor := range r.path.tensors() {
		raw, err := tensor.Read(r.t.Context())
		require.NoError(r.t, err)
		out[tensor.Name] = raw
	}
	return out
}

// write restores what raw gave.
func (r *pathRig) write(raw map[string][]byte) {
	for _, tensor := range r.path.tensors() {
		require.NoError(r.t, tensor.Write(raw[tensor.Name]))
	}
	rec := r.dev.Record("derive")
	r.path.derive(rec)
	require.NoError(r.t, rec.Submit(r.t.Context()))
}

// images are all slabs of the updates, padding included.
func (r *pathRig) images() [][]byte {
	var out [][]byte
	for s := range r.updates.Layout().Slabs() {
		raw := make([]byte, r.updates.Slab(s).Bytes)
		require.NoError(r.t, r.dev.Read(r.t.Context(), raw, r.updates.Slab(s)))
		out = append(out, raw)
	}
	return out
}

// paddingIsZero looks at what lies between the leaves.
func (r *pathRig) paddingIsZero() {
	images := r.images()
	for _, l := range r.updates.Layout().Leaves() {
		for _, p := range l.Parts {
			clear(images[p.Slab][4*p.Offset : 4*(p.Offset+p.Count)])
		}
	}
	for s, image := range images {
		require.Equal(r.t, -1, slices.IndexFunc(image, func(b byte) bool { return b != 0 }), "slab %d", s)
	}
}

// distance is the largest error among hosts in relation to the largest number of its array, and where; infinite where anything is not
// finite or shapes differ.
func distance(got, want []buffers.Host) (float64, string) {
	if len(got) != len(want) {
		return math.Inf(1), "arrays"
	}
	worst, where := 0.0, ""
	for i, w := range want {
		if got[i].Path != w.Path || len(got[i].Data) != len(w.Data) {
			return math.Inf(1), w.Path
		}
		size := 0.0
		for _, x := range w.Data {
			size = max(size, math.Abs(float64(x)))
		}
		for k, x := range w.Data {
			diff := math.Abs(float64(got[i].Data[k]) - float64(x))
			if diff > 0 {
				diff /= size
			}
			if !(diff <= worst) {
				worst, where = diff, fmt.Sprintf("%s[%d]: %g, want %g", w.Path, k, got[i].Data[k], x)
			}
			if math.IsNaN(worst) {
				return math.Inf(1), where
			}
		}
	}
	return worst, where
}

// near fails where the distance is above a limit.
func near(t testing.TB, what string, got, want []buffers.Host, limit float64) {
	t.Helper()
	d, where := distance(got, want)
	require.LessOrEqual(t, d, limit, "%s: %s", what, where)
}
