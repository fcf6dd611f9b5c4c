package optim

import (
	"encoding/binary"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

// Update records the next call of the state (State.Phase): grads are read, state and params are updated in place. What
// varies from call to call is read from the device, so the recording, or a program made of it, serves for every later
// call of the same phase. Before each submit comes State.Prepare.
//
// An update is one dispatch a slab, and one more a slab behind each operator; where something is measured, one a slab and one
// more before it.
func (t Transform) Update(rec *gpu.Recording, grads *buffers.Tree, s *State, params *buffers.Tree) error {
	return t.Record(rec, s.Phase(), grads, s, params)
}

// Record records one phase of a call. Errors: trees that do not match, a phase that the transformation does not have.
func (t Transform) Record(rec *gpu.Recording, phase Phase, grads *buffers.Tree, s *State, params *buffers.Tree) error {
	if err := t.check(phase, grads, s, params); err != nil {
		return fmt.Errorf("optim: %s: %w", t.name, err)
	}
	rec.Group("optim." + phase.String())
	trees := job{grads: grads.DType(), params: params.DType()}
	if phase == Collect {
		trees.kind = collectJob
		return s.dispatch(rec, trees, grads, params)
	}
	flag := gpu.Range{}
	if t.skip {
		flag = s.statistics.Range(0, StatisticsBytes)
	}
	for i, segment := range s.plan.segments {
		if err := s.measure(rec, phase, i, trees, grads, params); err != nil {
			return err
		}
		if phase == Measure {
			return nil // the only norm is in the first segment
		}
		trees.kind, trees.index = updateJob, i
		if err := s.dispatch(rec, trees, grads, params); err != nil {
			return err
		}
		if segment.last {
			break
		}
		name := s.plan.steps[segment.end].name
		rec.Group("optim." + name)
		call := operatorCall{updates: s.updates, params: params, flag: flag, reuse: phase == Reuse || phase == ReuseApply}
		if err := s.operations[i].record(rec, call); err != nil {
			return fmt.Errorf("optim: %s: %s: %w", t.name, name, err)
		}
	}
	return nil
}

// measure records the norms and the sums by leaf of a segment, in the order of the steps that they stand before.
func (s *State) measure(rec *gpu.Recording, phase Phase, segment int, trees job, grads, params *buffers.Tree) error {
	for before := s.plan.segments[segment].first; before <= s.plan.segments[segment].end; before++ {
		for j, at := range s.plan.norms {
			if at != before || phase == Apply || phase == ReuseApply {
				continue
			}
			trees.kind, trees.index = normJob, j
			if err := s.dispatch(rec, trees, grads, params); err != nil {
				return err
			}
			if err := s.total(rec, j); err != nil {
				return err
			}
		}
		for j, sum := range s.plan.sums {
			if sum.before != before || phase == Measure {
				continue
			}
			trees.kind, trees.index = sumJob, j
			if err := s.dispatch(rec, trees, grads, params); err != nil {
				return err
			}
			if err := s.leafSums.total(rec, j, s.device.Limits()); err != nil {
				return err
			}
		}
	}
	return nil
}

// stageLocal refuses what cannot be halved into Measure and Apply.
func (p *plan) stageLocal(phase Phase) error {
	if len(p.norms) > 1 {
		return fmt.Errorf("phase: found %s, but this measures %d times in a row: it has no stage-local path", phase, len(p.norms))
	}
	for _, before := range p.norms {
		late := p.segmentOf(before) > 0
		for _, s := range p.sums {
			late = late || s.before < before
		}
		if late {
			return fmt.Errorf("phase: found %s, but this measures the norm of an update that other leaves' norms went into: it has no stage-local path", phase)
		}
	}
	return nil
}

// check is the tree boundary: everything is compared once, here.
func (t Transform) check(phase Phase, grads *buffers.Tree, s *State, params *buffers.Tree) error {
	if s.plan.transform.name != t.name {
		return fmt.Errorf("state: found that of %s", s.plan.transform.name)
	}
	for _, tree := range []struct {
		name string
		tree *buffers.Tree
	}{{"params", params}, {"grads", grads}} {
		if tree.tree.Device() != s.device {
			return fmt.Errorf("%s: found a tree of another device than the state's", tree.name)
		}
		if d := tree.tree.DType(); d != buffers.F32 && d != buffers.BF16 {
			return fmt.Errorf("%s: dtype %s, wanted f32 or bf16", tree.name, d)
		}
		if err := sameLeaves(tree.name, tree.tree.Layout(), s.layout); err != nil {
			return err
		}
	}
	if phase == Collect && t.accumulate <= 1 {
		return fmt.Errorf("phase: found collect, which needs an accumulation")
	}
	switch {
	case (phase == Reuse || phase == ReuseApply) && !slices.Contains(s.Phases(), Reuse):
		return fmt.Errorf("phase: found %s, but this has nothing to reuse", phase)
	case phase == Measure || phase == Apply || phase == ReuseApply:
		return s.plan.stageLocal(phase)
	}
	return nil
}

func sameLeaves(name string, found, wanted *buffers.Layout) error {
	if found.Equal(wanted) {
		return nil
	}
	have, want := found.Leaves(), wanted.Leaves()
	for i, leaf := range want {
		switch {
		case i >= len(have) || leaf.Path < have[i].Path:
			return fmt.Errorf("%s: leaf %q is missing", name, leaf.Path)
		case leaf.Path > have[i].Path:
			return fmt.Errorf("%s: leaf %q is not one of the state's", name, have[i].Path)
		case !slices.Equal(leaf.Shape, have[i].Shape):
			return fmt.Errorf("%s: leaf %q: shape %v does not match %v of the state", name, leaf.Path, have[i].Shape, leaf.Shape)
		}
	}
	if len(have) > len(want) {
		return fmt.Errorf("%s: leaf %q is not one of the state's", name, have[len(want)].Path)
	}
	return fmt.Errorf("%s: the same leaves as the state's, but placed otherwise", name)
}

// kernel is the fused kernel of a job, made on first use.
func (s *State) kernel(j job) (*fused, error) {
	if f := s.kernels[j]; f != nil {
		return f, nil
	}
	f, err := s.plan.fuse(j)
	if err != nil {
		return nil, err
	}
	s.kernels[j] = f
	return f, nil
}

// dispatch records the kernel of a job once a slab.
func (s *State) dispatch(rec *gpu.Recording, j job, grads, params *buffers.Tree) error {
	f, err := s.kernel(j)
	if err != nil {
		return err
	}
	base := uint32(0)
	leaves := uint32(len(s.layout.Leaves()))
	for slab, n := range s.layout.Slabs() {
		vecs := uint64(n / 4)
		constants := words(uint32(vecs), s.tables[slab].values)
		grid := gpu.Linear(vecs, lanes, s.device.Limits())
		bind := []gpu.Range{s.scalars.All()}
		for _, o := range f.operands {
			switch o.place {
			case gradsPlace:
				bind = append(bind, grads.Slab(slab))
			case paramsPlace:
				bind = append(bind, params.Slab(slab))
			case updatesPlace:
				bind = append(bind, s.updates.Slab(slab))
			default:
				bind = append(bind, s.trees[o.place].Tree.Slab(slab))
			}
		}
		bind = append(bind, s.tables[slab].buffer.All())
		if f.statistics {
			bind = append(bind, s.statistics.All())
		}
		if f.leafSums {
			bind = append(bind, s.leafSums.sums.All())
		}
		switch j.kind {
		case normJob:
			constants = append(constants, words(base, s.groups[slab])...)
			grid = gpu.Linear(uint64(s.groups[slab]), 1, s.device.Limits())
			bind = append(bind, s.partials.All())
			base += s.groups[slab]
		case sumJob:
			constants = append(constants, words(s.leafSums.first[slab])...)
			grid = gpu.Linear(uint64(n/buffers.BlockElements), lanes, s.device.Limits())
			bind = append(bind, s.leafSums.blocks.All())
		}
		constants = append(constants, words(leaves)...)
		rec.Dispatch(f.kernel, grid, constants, bind...)
	}
	return nil
}

// total records the kernel that puts partial sums together.
func (s *State) total(rec *gpu.Recording, norm int) error {
	const invocations = 256
	source, err := shaders.Source("optim_norm_total.wgsl", shaders.Variant{Constants: map[string]string{"LANES": fmt.Sprint(invocations)}})
	if err != nil {
		return fmt.Errorf("optim: norm: %w", err)
	}
	pairs, skips := uint32(0), uint32(0)
	for _, g := range s.groups {
		pairs += g
	}
	if s.plan.transform.skip && norm == 0 {
		skips = 1
	}
	k := &gpu.Kernel{
		Label: "gputrain.optim.norm_total", Source: source, Workgroup: [3]int{invocations, 1, 1},
		Bindings: []gpu.Binding{{Name: "params", Access: gpu.Uniform}, {Name: "partials", Access: gpu.Read}, {Name: "statistics", Access: gpu.ReadWrite}},
	}
	rec.Dispatch(k, gpu.Grid{X: 1, Y: 1, Z: 1}, words(pairs, uint32(norm), skips), s.partials.All(), s.statistics.All())
	return nil
}

func words(values ...uint32) []byte {
	var out []byte
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	return out
}
