package optim

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// Update records the next call of the state (State.Phase): grads are read, state and params are updated in place. What
// varies from call to call is read from the device, so the recording, or a program made of it, serves for every later
// call of the same phase. Before each submit comes State.Prepare.
//
// An update is one dispatch a slab, and one more a slab after each operator; where something is measured, one a slab
// and one more before it, and one more for a norm. What moves before its gradients (Lookahead) moves here, for gradients
// that were taken there, in one more.
func (t Transform) Update(rec *gpu.Recording, grads *buffers.Tree, s *State, params *buffers.Tree) error {
	phase := s.Phase()
	if t.LooksAhead() && (phase == Collect || t.accumulate <= 1) {
		if err := t.RecordMove(rec, s, params); err != nil {
			return err
		}
	}
	return t.Record(rec, phase, grads, s, params)
}

// Record records one phase of a call. Errors: trees that do not match, a phase that the transformation does not have, an update of one
// stage of a model that measures norms: RecordRound records its pieces.
func (t Transform) Record(rec *gpu.Recording, phase Phase, grads *buffers.Tree, s *State, params *buffers.Tree) error {
	if err := t.check(phase, grads, s, params); err != nil {
		return fmt.Errorf("optim: %s: %w", t.name, err)
	}
	if phase != Collect && s.Rounds() > 1 && len(s.places) < len(s.whole) {
		return fmt.Errorf("optim: %s: state: found %d of the %d leaves of a model whose norm is measured, wanted all, or rounds",
			t.name, len(s.places), len(s.whole))
	}
	return t.record(rec, phase, grads, s, params, func(int) bool { return true })
}

// RecordRound records piece round of an update, one of State.Rounds; phase is Emit or Reuse. A piece but the last ends
// with the norm of the leaves at hand in State.Measured(round), and before the next one runs, the pairs of all leaves
// of the model are written to State.Combined(round) (State.GatherNorms). All pieces together have the bits of Record,
// however the leaves are divided over states. It has the errors of Record.
func (t Transform) RecordRound(rec *gpu.Recording, phase Phase, round int, grads *buffers.Tree, s *State, params *buffers.Tree) error {
	if err := t.check(phase, grads, s, params); err != nil {
		return fmt.Errorf("optim: %s: %w", t.name, err)
	}
	if phase == Collect || round < 0 || round >= s.Rounds() {
		return fmt.Errorf("optim: %s: round: found %d of %s, wanted one of 0 to %d of emit or reuse", t.name, round, phase, s.Rounds()-1)
	}
	return t.record(rec, phase, grads, s, params, func(r int) bool { return r == round })
}

// A recorder goes through the commands of an update and records the commands of the wanted rounds.
type recorder struct {
	*State
	rec           *gpu.Recording
	round         int
	wanted        func(round int) bool
	grads, params *buffers.Tree
}

func (t Transform) record(rec *gpu.Recording, phase Phase, grads *buffers.Tree, s *State, params *buffers.Tree, wanted func(round int) bool) error {
	rec.Group("optim." + phase.String())
	r := &recorder{State: s, rec: rec, wanted: wanted, grads: grads, params: params}
	if phase == Collect {
		r.dispatch(collectJob, 0)
		return rec.Err()
	}
	flag := gpu.Range{}
	if t.skip {
		flag = s.Statistics().Buffer.Range(0, StatisticsBytes)
	}
	for i, segment := range s.plan.segments {
		r.measure(segment)
		r.dispatch(updateJob, i)
		if segment.last {
			break
		}
		if !wanted(r.round) {
			continue
		}
		rec.Group("optim." + s.plan.steps[segment.end].Name)
		s.operations[i].Record(rec, OperatorCall{Updates: s.updates, Params: params, Flag: flag, Reuse: phase == Reuse})
	}
	return rec.Err()
}

// measure records the measurements of a segment, in order. The next round begins after the pairs of a norm, with their
// total.
func (r *recorder) measure(s segment) {
	rows := r.plan.rows
	for i, m := range r.plan.measured {
		if m.before < s.from || m.before > s.end {
			continue
		}
		if rows >= s.first && m.before > rows { // what comes behind depends on them
			r.recordRows()
			rows = -1
		}
		r.dispatch(measureJob, i)
		if r.wanted(r.round) {
			r.measurements.byLeaf(r.rec, i, r.device.Limits())
		}
		if m.norm < 0 {
			continue
		}
		r.round++
		if r.wanted(r.round) {
			r.measurements.total(r.rec, r.plan, m.norm)
			r.measurements.guarded(r.rec, r.plan, m.norm)
		}
	}
	if rows >= s.first && rows < s.end {
		r.recordRows()
	}
}

// Matches tells why s is not a state of the transformation for params, all of a model, if it is not.
func (t Transform) Matches(s *State, params *buffers.Tree) error {
	if err := t.check(Emit, params, s, params); err != nil {
		return fmt.Errorf("optim: %s: %w", t.name, err)
	}
	if len(s.places) < len(s.whole) {
		return fmt.Errorf("optim: %s: state: found %d of the %d leaves of a model, wanted all", t.name, len(s.places), len(s.whole))
	}
	return nil
}

// check is the tree boundary: everything is compared once, here.
func (t Transform) check(phase Phase, grads *buffers.Tree, s *State, params *buffers.Tree) error {
	if s.released {
		return fmt.Errorf("state: found one that is released")
	}
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
	if phase == Reuse && !slices.Contains(s.Phases(), Reuse) {
		return fmt.Errorf("phase: found %s, but this has nothing to reuse", phase)
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
func (s *State) kernel(j job) *fused {
	if s.kernels[j] == nil {
		s.kernels[j] = s.plan.fuse(j)
	}
	return s.kernels[j]
}

// updateParams are the params of optim_update.wgsl.
type updateParams struct{ Vecs, Values, Leaves, Stride, Width uint32 }

// groupParams are the params of optim_norm.wgsl.
type groupParams struct {
	updateParams
	First, Groups uint32
}

// codedParams are the params of either with trees in eight bits.
type codedParams struct {
	groupParams
	Maxima, Plain uint32
}

// dispatch records the kernel of a job once a slab.
func (r *recorder) dispatch(kind jobKind, index int) {
	if !r.wanted(r.round) {
		return
	}
	f := r.kernel(job{kind: kind, index: index, grads: r.grads.DType(), params: r.params.DType()})
	leaves := uint32(len(r.layout.Leaves()))
	for slab, n := range r.layout.Slabs() {
		vecs := uint64(n / 4)
		sizes := updateParams{uint32(vecs), r.tables[slab].values, leaves, uint32(r.plan.stride()), uint32(r.plan.width())}
		params := any(sizes)
		grid := gpu.Linear(vecs, lanes, r.device.Limits())
		if kind == measureJob || kind == rowsJob || f.coded {
			groups := groupParams{sizes, r.tables[slab].codes, r.tables[slab].coded}
			switch kind {
			case measureJob:
				groups = groupParams{sizes, r.tables[slab].groups, r.measurements.groups[slab]}
			case rowsJob:
				groups = groupParams{sizes, r.tables[slab].rowGroups, r.tables[slab].rowGroupCount}
			}
			if kind == rowsJob && groups.Groups == 0 {
				continue
			}
			params = groups
			if f.coded {
				params = codedParams{groups, r.coded.Maxima[slab], r.coded.Plain[slab]}
			}
			grid = gpu.Linear(uint64(groups.Groups), 1, r.device.Limits())
		}
		bind := []gpu.Range{r.scalars.All()}
		for _, o := range f.operands {
			switch o.place {
			case gradsPlace:
				bind = append(bind, r.grads.Slab(slab))
			case paramsPlace:
				bind = append(bind, r.params.Slab(slab))
			case updatesPlace:
				bind = append(bind, r.updates.Slab(slab))
			default:
				bind = append(bind, r.trees[o.place].Tree.Slab(slab))
			}
		}
		for _, b := range f.kernel.Bindings[2+len(f.operands):] {
			bind = append(bind, r.table(b.Name, slab).All())
		}
		r.rec.Dispatch(f.kernel, grid, params, bind...)
	}
}

// table is what a fused kernel binds besides trees, by its name there.
func (r *recorder) table(name string, slab int) *gpu.Buffer {
	switch name {
	case "statistics":
		return r.measurements.statistics
	case "pairs":
		return r.measurements.pairs
	case "partials":
		return r.measurements.partials
	case "row_sums":
		return r.rowSums
	}
	return r.tables[slab].buffer
}
