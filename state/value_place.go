package state

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
)

// Clone is a second value with the same numbers, on the same device. Trees are copied there; what optimizers keep beside trees goes by way of
// the host.
func (v Value) Clone(ctx context.Context) (Value, error) {
	h, err := v.use("clone")
	if err != nil {
		return Value{}, err
	}
	f, err := h.copyTo(ctx, h.device())
	if err != nil {
		return Value{}, fmt.Errorf("state: value: clone: %w", err)
	}
	return holding(&held{Fields: f}), nil
}

// To moves the value to a device, with every bit, and gives back what it took of the one before. Package pipeline divides it over several
// devices.
func (v Value) To(ctx context.Context, dev *gpu.Device) (Value, error) {
	h, err := v.use("to")
	if err != nil {
		return Value{}, err
	}
	switch dev {
	case nil:
		return Value{}, fmt.Errorf("state: value: to: device: found none, wanted one")
	case h.device():
		return v.pass(), nil
	}
	f, err := h.copyTo(ctx, dev)
	if err != nil {
		return Value{}, fmt.Errorf("state: value: to: %w", err)
	}
	v.Release()
	return holding(&held{Fields: f}), nil
}

// copyTo copies the trees and the optimizer's state.
func (f Fields) copyTo(ctx context.Context, dev *gpu.Device) (_ Fields, err error) {
	out := f
	out.OptimizerState = nil
	defer func() {
		if err != nil && out.Params != nil {
			out.releaseUnless(Fields{})
		}
	}()
	err = out.CopyTrees(ctx, dev, buffers.Given(f.Params), buffers.Given(f.Frozen), buffers.Given(f.Other))
	if err == nil && f.OptimizerState != nil {
		if out.OptimizerState, err = out.initOptimizer(); err != nil {
			return out, err
		}
		err = CopyOptimizer(ctx, []*optim.State{out.OptimizerState}, []*optim.State{f.OptimizerState})
	}
	return out, err
}

// CopyTrees sets the trees of the fields to copies on a device, each of all leaves that lie in one tree or in several, if any. After an error
// those that are made are the caller's to release.
func (f *Fields) CopyTrees(ctx context.Context, dev *gpu.Device, params, frozen, other []*buffers.Tree) (err error) {
	f.Params, f.Frozen, f.Other = nil, nil, nil
	for _, c := range []struct {
		to   **buffers.Tree
		from []*buffers.Tree
	}{{&f.Params, params}, {&f.Frozen, frozen}, {&f.Other, other}} {
		if len(c.from) == 0 {
			continue
		}
		if *c.to, err = CopyTree(ctx, dev, c.from); err != nil {
			return err
		}
	}
	return nil
}

// CopyTree copies leaves to a new tree on a device. They lie in one tree or in several of one type. Without paths it copies all leaves.
func CopyTree(ctx context.Context, dev *gpu.Device, from []*buffers.Tree, paths ...string) (*buffers.Tree, error) {
	if len(paths) == 0 {
		paths = Paths(from...)
	}
	var specs []buffers.Spec
	for _, path := range paths {
		at := slices.IndexFunc(from, func(t *buffers.Tree) bool { _, ok := t.Layout().Leaf(path); return ok })
		if at < 0 {
			return nil, fmt.Errorf("leaf %q: found in none of %d trees", path, len(from))
		}
		leaf, _ := from[at].Layout().Leaf(path)
		specs = append(specs, buffers.Spec{Path: path, Shape: leaf.Shape})
	}
	layout, err := buffers.NewLayout(specs, dev.Limits())
	if err != nil {
		return nil, err
	}
	return copyAs(ctx, from[0].Label(), from[0].DType(), from, dev, layout)
}

// copyAs makes a tree of that layout, whose leaves lie in one or several trees.
func copyAs(ctx context.Context, label string, dtype buffers.DType, from []*buffers.Tree, dev *gpu.Device, layout *buffers.Layout) (*buffers.Tree, error) {
	owners, err := leavesOf(from)
	if err != nil {
		return nil, err
	}
	to, err := buffers.NewTree(dev, label, layout, dtype)
	if err != nil {
		return nil, err
	}
	if from[0].Device() == dev && from[0].DType() == dtype && from[0].Layout().Equal(layout) {
		err = copyOnDevice(ctx, to, from[0])
	} else {
		err = copyLeaves(ctx, to, owners)
	}
	if err != nil {
		to.Release()
		return nil, err
	}
	return to, nil
}

func copyLeaves(ctx context.Context, to *buffers.Tree, owners map[string]*buffers.Tree) error {
	for _, leaf := range to.Layout().Leaves() {
		if owners[leaf.Path].DType() != to.DType() {
			data, err := owners[leaf.Path].Read(ctx, leaf.Path)
			if err == nil {
				err = to.Write(leaf.Path, data)
			}
			if err != nil {
				return err
			}
			continue
		}
		raw, err := owners[leaf.Path].ReadRaw(ctx, leaf.Path)
		if err != nil {
			return err
		}
		if err := to.WriteRaw(leaf.Path, raw); err != nil {
			return err
		}
	}
	return nil
}

func copyOnDevice(ctx context.Context, to, from *buffers.Tree) error {
	rec := to.Device().Record("gputrain.state.copy")
	if err := buffers.Copy(rec, to, from); err != nil {
		return err
	}
	return rec.Submit(ctx)
}

// CopyOptimizer copies what an optimizer remembers, counts included. src are states that together are a model's, and so are dst, wherever
// they lie. It fails where one remembers what the other does not; what dst then holds is not defined.
func CopyOptimizer(ctx context.Context, dst, src []*optim.State) error {
	to, err := tensorsOf(dst)
	if err != nil {
		return err
	}
	from, err := tensorsOf(src)
	if err != nil {
		return err
	}
	for i := range max(len(to), len(from)) {
		switch {
		case i >= len(from) || i < len(to) && to[i].Name < from[i].Name:
			return fmt.Errorf("optimizer: tensor %q: found none to copy, wanted %v %v", to[i].Name, to[i].DType, to[i].Shape)
		case i >= len(to) || to[i].Name > from[i].Name:
			return fmt.Errorf("optimizer: tensor %q: found %v %v, wanted none", from[i].Name, from[i].DType, from[i].Shape)
		case to[i].DType != from[i].DType || !slices.Equal(to[i].Shape, from[i].Shape):
			return fmt.Errorf("optimizer: tensor %q: found %v %v, wanted %v %v", to[i].Name, from[i].DType, from[i].Shape, to[i].DType, to[i].Shape)
		}
	}
	done, err := copyTrees(ctx, dst, src)
	if err != nil {
		return err
	}
	for i, t := range to {
		if done[t.Name] {
			continue
		}
		raw, err := from[i].Read(ctx)
		if err == nil {
			err = t.Write(raw)
		}
		if err != nil {
			return fmt.Errorf("optimizer: tensor %q: %w", t.Name, err)
		}
	}
	for _, s := range dst {
		if err := s.SetCounts(src[0].Counts()); err != nil {
			return err
		}
	}
	return nil
}

// copyTrees copies what lies in like trees of one device, and tells which tensors these are.
func copyTrees(ctx context.Context, dst, src []*optim.State) (done map[string]bool, err error) {
	done = map[string]bool{}
	if len(dst) != 1 || len(src) != 1 {
		return done, nil
	}
	from := map[string]*buffers.Tree{}
	for _, t := range src[0].Trees() {
		from[t.Name] = t.Tree
	}
	for _, t := range dst[0].Trees() {
		other := from[t.Name]
		if other == nil || other.Device() != t.Tree.Device() || !other.Layout().Equal(t.Tree.Layout()) {
			continue
		}
		if err := copyOnDevice(ctx, t.Tree, other); err != nil {
			return nil, err
		}
		for _, leaf := range t.Tree.Layout().Leaves() {
			done[t.Name+"/"+leaf.Path] = true
		}
	}
	return done, nil
}
