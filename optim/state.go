package optim

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// State is the memory of a transformation for one tree of params on its device: trees shaped like the params, what
// operators keep, and counts on the host. Beside it live the scalars of the call in hand, the statistics and a table of
// the leaves. It is not safe for concurrent use.
type State struct {
	plan    *plan
	device  *gpu.Device
	layout  *buffers.Layout
	coded   *buffers.Coded // the layout of trees in eight bits; nil where there are none
	trees   []namedTree
	counts  map[string]int64
	rate    float64
	scale   float64 // of gradients, where the transformation takes it out; 0: 1
	staged  bool    // the next call is eformer's stage-local
	moving  bool    // the call in hand is one before which the params move
	kernels map[job]*fused

	operations []Operation   // one a segment but the last
	updates    *buffers.Tree // the update between segments; nil where there is one only

	scalars      *gpu.Buffer
	tables       []slabTable
	measurements *measurements // nil where nothing is measured
	rowSums      *gpu.Buffer   // nil where no rows are
	rows         []rowsOf      // by leaf, likewise

	released bool

	whole  []string // paths of the whole model, except for frozen leaves
	places []int    // of the leaves among them
}

// namedTree is one kind of elementwise state: "mu", "nu", "trace", "acc". It has the leaves that its element acts on; in eight bits as buffers.Coded lays
// them out.
type namedTree struct {
	Name string
	Tree *buffers.Tree

	from int64 // the update from which on it has anything
}

// slabTable is what kernels read about a slab, and where in it the values of the leaves, the groups and the blocks of codes begin.
type slabTable struct {
	buffer                *gpu.Buffer
	values, groups, codes uint32
	coded                 uint32 // how many blocks of codes

	rows, rowGroups, matrices  uint32 // of a rowRule: the two numbers of each row, groups and matrices
	rowGroupCount, matrixCount uint32
}

// Trees lists the elementwise state, in a fixed order.
func (s *State) Trees() []namedTree { return s.trees }

// Tensors lists all state as it is saved: "mu/h.0.ln_1.weight", "dense/Ql". To restore a state, SetCounts, and write them all. What begins
// with a later update is not among them.
func (s *State) Tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for _, t := range s.trees {
		if s.counts[updatesCount] < t.from {
			continue
		}
		if t.Tree.DType() == buffers.U8 {
			for _, leaf := range s.layout.Leaves() {
				out = append(out, s.coded.Tensors(t.Tree, t.Name+"/"+leaf.Path, leaf)...)
			}
			continue
		}
		for _, leaf := range t.Tree.Layout().Leaves() {
			out = append(out, t.Tree.Tensor(t.Name+"/"+leaf.Path, leaf))
		}
	}
	for _, o := range s.operations {
		out = append(out, o.Tensors()...)
	}
	return out
}

// ModelLeaves counts the leaves of the whole model that are not frozen, of which the state may have some.
func (s *State) ModelLeaves() int { return len(s.whole) }

// Counts tells how often events have happened: "updates", "mini_step" where gradients are accumulated, and one count
// for each element of the chain that has scalars.
func (s *State) Counts() map[string]int64 { return maps.Clone(s.counts) }

// SetCounts restores counts: exactly those that Counts has.
func (s *State) SetCounts(counts map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		if v, ok := counts[name]; !ok || v < 0 {
			return fmt.Errorf("optim: %s: counts: %q: found %d, wanted one not below 0", s.plan.transform.name, name, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if _, ok := s.counts[name]; !ok {
			return fmt.Errorf("optim: %s: counts: found %q, which this optimizer does not count", s.plan.transform.name, name)
		}
	}
	if k := int64(s.plan.transform.accumulate); k > 1 && counts[miniStepCount] >= k {
		return fmt.Errorf("optim: %s: counts: %q: found %d, wanted less than the %d calls of an update",
			s.plan.transform.name, miniStepCount, counts[miniStepCount], k)
	}
	s.counts = maps.Clone(counts)
	return nil
}

// Phase is the phase of the next call: Collect for the first k-1 of k calls, else Emit; whether an Emit is a Reuse,
// Prepare tells.
func (s *State) Phase() Phase { return s.plan.phase(s.counts) }

// Phases lists what Prepare can name; a trainer that submits prebuilt programs makes one for each.
func (s *State) Phases() []Phase {
	var phases []Phase
	if s.plan.transform.accumulate > 1 {
		phases = append(phases, Collect)
	}
	phases = append(phases, Emit)
	if slices.ContainsFunc(s.operations, Operation.Reuses) {
		phases = append(phases, Reuse)
	}
	return phases
}

// Prepare begins a call: it writes the call's scalars to the device, ordered before the next submit, advances the counts
// and tells what recording to submit. Rates and bias corrections are evaluated in float64.
func (s *State) Prepare() (Phase, error) { return s.PrepareAt(nil) }

// PrepareAt is Prepare with another learning rate for this call, at the counts of those that it stands for: in the step and in decays that
// are scheduled with it. Multipliers of leaves stay. A nil schedule is the state's own.
func (s *State) PrepareAt(lr Schedule) (Phase, error) {
	phase := s.Phase()
	s.moving = s.plan.transform.LooksAhead() && s.counts[miniStepCount] == 0
	values := s.plan.evaluate(s.counts, given{lr, s.scale, s.staged})
	data := make([]uint32, s.plan.uniformBytes()/4)
	for i, v := range values {
		data[i] = math.Float32bits(float32(v))
	}
	if s.moving {
		s.moving = values[s.plan.steps[s.plan.apart("lookahead")].firstScalar] != 0
	}
	data[len(values)] = uint32(s.counts[updatesCount])
	if err := s.device.Write(s.scalars.All(), gpu.Bytes(data)); err != nil {
		return phase, fmt.Errorf("optim: %s: scalars: %w", s.plan.transform.name, err)
	}
	if phase == Emit {
		s.rate = s.plan.rate(values)
		reuse, err := s.prepareOperations()
		if err != nil {
			return phase, fmt.Errorf("optim: %s: %w", s.plan.transform.name, err)
		}
		if reuse {
			phase = Reuse
		}
	}
	s.plan.advance(s.counts, phase)
	return phase, nil
}

// SetStageLocal says whether the next calls are those of eformer's stage-local path, which in its numerics has a clip of its own (ClipStageLocal).
func (s *State) SetStageLocal(staged bool) { s.staged = staged }

// prepareOperations tells whether all operators that can reuse want to.
func (s *State) prepareOperations() (reuse bool, err error) {
	wanted, can, next := 0, 0, 0
	for _, step := range s.plan.steps {
		if step.operator == nil {
			continue
		}
		o := s.operations[next]
		next++
		r, err := o.Prepare(s.counts[step.count])
		if err != nil {
			return false, fmt.Errorf("%s: %w", step.Name, err)
		}
		if o.Reuses() {
			can++
		}
		if r {
			wanted++
		}
	}
	return can > 0 && wanted == can, nil
}

// LearningRate is the rate of the last update that Prepare began; 0 before the first, and where the chain has none.
func (s *State) LearningRate() float64 { return s.rate }

// Statistics is where updates leave their measurements, StatisticsBytes for each place in the chain that measures: the
// first is the gradient's. It has no bytes where nothing measures.
func (s *State) Statistics() gpu.Range {
	if s.measurements == nil || s.measurements.statistics == nil {
		return gpu.Range{}
	}
	return s.measurements.statistics.All()
}

// Bytes is the device memory of the state, its tables included: Transform.Bytes of the layout.
func (s *State) Bytes() uint64 {
	n := s.scalars.Bytes()
	for _, t := range s.trees {
		n += t.Tree.Bytes()
	}
	for _, t := range s.tables {
		n += t.buffer.Bytes()
	}
	for _, o := range s.operations {
		n += o.Bytes()
	}
	if s.updates != nil {
		n += s.updates.Bytes()
	}
	if s.measurements != nil {
		n += s.measurements.Bytes()
	}
	if s.rowSums != nil {
		n += s.rowSums.Bytes()
	}
	return n
}

// Released tells whether the state has given its memory back, and so remembers nothing.
func (s *State) Released() bool { return s.released }

// Release gives the memory back. Every later use of the state is an error that says so.
func (s *State) Release() {
	if s == nil || s.released {
		return
	}
	s.released = true // what it has stays here, to be refused
	for _, t := range s.trees {
		t.Tree.Release()
	}
	for _, t := range s.tables {
		t.buffer.Release()
	}
	s.scalars.Release()
	for _, o := range s.operations {
		o.Release()
	}
	s.updates.Release()
	if s.measurements != nil {
		s.measurements.Release()
	}
	s.rowSums.Release()
}
