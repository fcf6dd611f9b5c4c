package kron

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/buffers/prng"
	"gputrain/gpu"
)

// Checks compares updates of every kind of leaf with the twin, over a small model with sides of odd sizes, and single kernels at a larger
// one. Errors are relative to the largest number of a leaf or a tensor.
func Checks() []gpu.Check {
	// f32: some hundred roundings of 2^-24 on top of each other. bf16: a rounding to the other side, 2^-8, in factors that an output has
	// four times.
	tolerances := map[buffers.DType]float64{buffers.F32: 2e-5, buffers.BF16: 0x1p-6}
	var checks []gpu.Check
	for _, method := range []Method{Quad, Skew} {
		for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16} {
			for _, n := range []struct {
				name  string
				rules Rules
			}{{"stable", Stable()}, {"eformer", Rules{}}} {
				name := fmt.Sprintf("kron.%s_%s_%s", method, dtype, n.name)
				c := Config{
					Method: method, BlockSize: 16, MaxSizeDense: 40, PreconditionerLR: 0.7, InitScale: 1.25, DType: dtype,
					NoiseScale: 1e-3, Damping: 1e-2, Rules: n.rules,
				}
				checks = append(checks, gpu.Check{Name: name, Run: func(ctx context.Context, d *gpu.Device) (gpu.Result, error) {
					r, err := compareWithTwin(ctx, d, c)
					r.Tolerance = tolerances[dtype]
					if err != nil {
						return r, fmt.Errorf("kron: check %s: %w", name, err)
					}
					return r, nil
				}})
			}
		}
	}
	return append(checks, unitChecks()...)
}

// checkLeaves are a leaf of each kind with MaxSizeDense of 40.
var checkLeaves = []Leaf{
	{Path: "both", Shape: []int{41, 43}},
	{Path: "dense", Shape: []int{33, 19}},
	{Path: "left", Shape: []int{50, 21}},
	{Path: "right", Shape: []int{5, 4, 45}},
	{Path: "scanned", Shape: []int{2, 3, 5}, Scanned: true},
	{Path: "vector", Shape: []int{37}},
}

// follower is a state on a device next to its twin.
type follower struct {
	device *gpu.Device
	state  *State
	tree   *buffers.Tree
	twin   *Twin
	result gpu.Result
}

// compareWithTwin does three refreshes, one update without, and one that balances, on the device and in the twin.
func compareWithTwin(ctx context.Context, d *gpu.Device, c Config) (gpu.Result, error) {
	f := &follower{device: d}
	plan, err := NewPlan(checkLeaves, c)
	if err != nil {
		return f.result, err
	}
	var zeros []buffers.Host
	for _, l := range checkLeaves {
		zeros = append(zeros, buffers.Host{Path: l.Path, Shape: l.Shape, Data: make([]float32, array.Elements(l.Shape))})
	}
	if f.tree, err = buffers.Upload(d, "kron.check", zeros, buffers.F32); err != nil {
		return f.result, err
	}
	defer f.tree.Release()
	if f.state, err = NewState(d, plan, f.tree.Layout()); err != nil {
		return f.result, err
	}
	defer f.state.Release()
	if f.twin, err = NewTwin(plan, nil); err != nil {
		return f.result, err
	}
	for _, u := range []struct {
		n     int64
		reuse bool
	}{{1, false}, {2, false}, {3, false}, {4, true}, {100, false}} {
		if err := f.update(ctx, u.n, u.reuse); err != nil {
			return f.result, fmt.Errorf("update %d: %w", u.n, err)
		}
	}
	return f.result, nil
}

func (f *follower) update(ctx context.Context, n int64, reuse bool) error {
	// Device and twin round to different sides now and then, and go their ways from there.
	if err := f.restoreTwin(); err != nil {
		return err
	}
	key := prng.NewKey(11).FoldIn(uint32(n))
	u := map[string][]float64{}
	var hosts []buffers.Host
	for i, l := range checkLeaves {
		h := buffers.Host{Path: l.Path, Shape: l.Shape, Data: make([]float32, array.Elements(l.Shape))}
		for k := range h.Data {
			h.Data[k] = 0.1 * key.FoldIn(uint32(i)).Normal(uint64(k))
			u[l.Path] = append(u[l.Path], float64(h.Data[k]))
		}
		hosts = append(hosts, h)
	}
	if err := f.tree.WriteAll(hosts); err != nil {
		return err
	}
	if err := f.state.Prepare(n); err != nil {
		return err
	}
	rec := f.device.Record("gputrain.kron.check")
	f.state.Record(rec, f.tree, gpu.Range{}, reuse)
	if err := rec.Submit(ctx); err != nil {
		return err
	}
	if err := f.twin.Update(n, u, reuse, false); err != nil {
		return err
	}
	hosts, err := f.tree.Download(ctx)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		want := make([]float32, len(h.Data))
		for i, x := range u[h.Path] {
			want[i] = float32(x)
		}
		f.result.Compare(fmt.Sprintf("update %d: %s", n, h.Path), h.Data, want)
	}
	want := f.twinTensors()
	for _, t := range f.state.Tensors() {
		raw, err := t.Read(ctx)
		if err != nil {
			return err
		}
		f.result.Compare(fmt.Sprintf("update %d: %s", n, t.Name), array.Decoded(t.DType, raw), want[t.Name])
	}
	return nil
}

func (f *follower) twinTensors() map[string][]float32 {
	out := map[string][]float32{}
	for _, h := range f.twin.Tensors() {
		out[h.Path] = h.Data
	}
	return out
}

// restoreTwin puts the twin's state into the device's.
func (f *follower) restoreTwin() error {
	want := f.twinTensors()
	for _, t := range f.state.Tensors() {
		data, ok := want[t.Name]
		if !ok {
			return fmt.Errorf("tensor %q: the twin has none", t.Name)
		}
		if err := t.Write(array.Encoded(t.DType, data)); err != nil {
			return err
		}
	}
	return nil
}
