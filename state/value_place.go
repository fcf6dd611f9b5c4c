package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
)

// Placement says where the leaves of a value lie.
type Placement struct {
	Devices []*gpu.Device  // of the stages; one may be several stages'
	Stage   map[string]int // of each leaf by its path, parameters and other variables alike; nil: all leaves are on the first stage
}

// Place moves the value to where a placement has it, with every bit: to one device, over several, or from several together again. Every stage has a
// parameter, and a leaf goes to its stage with what the optimizer remembers of it. What the value took where it was is given back once it is copied.
// On updates it has the same bits wherever it lies.
func (v Value) Place(ctx context.Context, p Placement) (Value, error) {
	h, err := v.use("place")
	if err != nil {
		return Value{}, err
	}
	if p, err = p.of(h.Fields); err != nil {
		return Value{}, fmt.Errorf("state: value: place: %w", err)
	}
	if now := h.placement(); slices.Equal(now.Devices, p.Devices) && maps.Equal(now.Stage, p.Stage) {
		return v.pass(), nil
	}
	f, err := h.copyTo(ctx, p)
	if err != nil {
		return Value{}, fmt.Errorf("state: value: place: %w", err)
	}
	v.Release()
	return holding(f), nil
}

// Clone is a second value with the same numbers, on the same devices. Trees are copied there; what optimizers keep beside trees, and what they keep
// on several devices, goes by way of the host.
func (v Value) Clone(ctx context.Context) (Value, error) {
	h, err := v.use("clone")
	if err != nil {
		return Value{}, err
	}
	f, err := h.copyTo(ctx, h.placement())
	if err != nil {
		return Value{}, fmt.Errorf("state: value: clone: %w", err)
	}
	return holding(f), nil
}

// Placement tells where everything lies. Another value with these leaves is placed by it as this one is.
func (v Value) Placement() (Placement, error) {
	h, err := v.use("placement")
	if err != nil {
		return Placement{}, err
	}
	return h.placement(), nil
}

func (f Fields) placement() Placement {
	stages := f.residents()
	p := Placement{devices(stages), map[string]int{}}
	for i, r := range stages {
		for _, path := range pathsOf(r.Params, r.Frozen, r.Other) {
			p.Stage[path] = i
		}
	}
	return p
}

// check says which device lacks.
func (p Placement) check() error {
	if len(p.Devices) == 0 {
		return errors.New("devices: found none, wanted one for each stage")
	}
	if i := slices.Index(p.Devices, nil); i >= 0 {
		return fmt.Errorf("device of stage %d: found none, wanted one", i)
	}
	return nil
}

// of is the placement of the fields' leaves alone.
func (p Placement) of(f Fields) (Placement, error) {
	out := Placement{slices.Clone(p.Devices), map[string]int{}}
	if err := p.check(); err != nil {
		return out, err
	}
	params, frozen, other := trees(f.residents())
	for _, path := range pathsOf(slices.Concat(params, frozen, other)...) {
		stage, found := p.Stage[path]
		switch {
		case p.Stage != nil && !found:
			return out, fmt.Errorf("leaf %q: found no stage, wanted one", path)
		case stage < 0 || stage >= len(p.Devices):
			return out, fmt.Errorf("leaf %q: found stage %d, wanted 0 to %d", path, stage, len(p.Devices)-1)
		}
		out.Stage[path] = stage
	}
	for stage := range p.Devices {
		if len(p.Devices) > 1 && !slices.ContainsFunc(pathsOf(params...), func(path string) bool { return out.Stage[path] == stage }) {
			return out, fmt.Errorf("stage %d has no parameters, wanted some on each of %d stages", stage, len(p.Devices))
		}
	}
	return out, nil
}

// copyTo copies the trees and the optimizer's states to where a placement of these leaves has them.
func (f Fields) copyTo(ctx context.Context, p Placement) (_ Fields, err error) {
	from, to := f.residents(), make([]Resident, len(p.Devices))
	params, frozen, other := trees(from)
	defer func() {
		if err != nil {
			Fields{Stages: to}.releaseUnless(Fields{})
		}
	}()
	for i := range to {
		for _, kind := range []struct {
			name string
			to   **buffers.Tree
			from []*buffers.Tree
		}{{"params", &to[i].Params, params}, {"frozen", &to[i].Frozen, frozen}, {"other", &to[i].Other, other}} {
			if *kind.to, err = p.copyTree(ctx, i, kind.from); err != nil {
				return f, fmt.Errorf("stage %d: %s: %w", i, kind.name, err)
			}
		}
		if len(states(from)) == 0 {
			continue
		}
		if to[i].State, err = f.initOptimizer(to[i].Params, f.leaves(params...)); err != nil {
			return f, fmt.Errorf("stage %d: %w", i, err)
		}
	}
	if len(states(from)) > 0 {
		err = copyOptimizer(ctx, states(to), states(from))
	}
	return f.on(to), err
}

// copyTree copies those leaves of trees of one type that a stage has; nil: none.
func (p Placement) copyTree(ctx context.Context, stage int, from []*buffers.Tree) (*buffers.Tree, error) {
	specs := slices.DeleteFunc(specsOf(from...), func(s buffers.Spec) bool { return p.Stage[s.Path] != stage })
	if len(from) == 0 || len(specs) == 0 && len(p.Devices) > 1 {
		return nil, nil
	}
	layout, err := buffers.NewLayoutFor(from[0].DType(), specs, p.Devices[stage].Limits())
	if err != nil {
		return nil, err
	}
	return copyAs(ctx, from[0].Label(), from[0].DType(), from, p.Devices[stage], layout)
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
	to.Share(from...)
	if i := slices.IndexFunc(from, func(t *buffers.Tree) bool { return t.Device() == dev && t.DType() == dtype && t.Layout().Equal(layout) }); i >= 0 {
		err = copyOnDevice(ctx, to, from[i])
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
	if to.DType().Packed() || slices.ContainsFunc(slices.Collect(maps.Values(owners)), func(t *buffers.Tree) bool { return t.DType() != to.DType() }) {
		var hosts []buffers.Host // which are read a part at a time
		for _, leaf := range to.Layout().Leaves() {
			host, err := owners[leaf.Path].Host(ctx, leaf.Path)
			if err != nil {
				return err
			}
			hosts = append(hosts, host)
		}
		return to.WriteAll(hosts)
	}
	for _, leaf := range to.Layout().Leaves() {
		if leaf.Table {
			continue // it is shared
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

// copyOptimizer copies what an optimizer remembers, counts included. src are states that together are a model's, and so are dst, wherever
// they lie. It fails where one remembers what the other does not; what dst then holds is not defined.
func copyOptimizer(ctx context.Context, dst, src []*optim.State) error {
	for _, s := range dst {
		_ = s.SetCounts(src[0].Counts()) // says which tensors there are; what does not count alike fails below
	}
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
