package optim

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// State is what a transformation remembers of one tree of params on its device: trees shaped like the params, and counts
// on the host. Beside it live the scalars of the call in hand, the statistics and a table of the leaves. It is not safe
// for concurrent use.
type State struct {
	plan    *plan
	device  *gpu.Device
	layout  *buffers.Layout
	trees   []NamedTree
	counts  map[string]int64
	rate    float64
	kernels map[job]*fused

	scalars    *gpu.Buffer
	statistics *gpu.Buffer
	partials   *gpu.Buffer
	tables     []slabTable
	groups     []uint32 // pairs of partial sums of each slab
}

// NamedTree is one kind of state: "mu", "nu", "trace", "acc".
type NamedTree struct {
	Name string
	Tree *buffers.Tree
}

type slabTable struct {
	buffer *gpu.Buffer
	values uint32
}

// Init makes the state of params, all zero, on the params' device. Errors: those of construction, a mask or rate that
// fits no path, no memory.
func (t Transform) Init(params *buffers.Tree) (*State, error) {
	return t.InitStage(params, paths(params.Layout().Leaves()))
}

// InitStage is Init for a tree that is one stage of a model; whole is the paths of all stages, which masks and rates
// speak of.
func (t Transform) InitStage(params *buffers.Tree, whole []string) (*State, error) {
	p, err := newPlan(t)
	if err != nil {
		return nil, err
	}
	if d := params.DType(); d != buffers.F32 && d != buffers.BF16 {
		return nil, fmt.Errorf("optim: %s: params: dtype %s, wanted f32 or bf16", t.name, d)
	}
	columns, err := p.resolve(params.Layout().Leaves(), whole)
	if err != nil {
		return nil, err
	}
	s := &State{plan: p, device: params.Device(), layout: params.Layout(), counts: p.newCounts(), kernels: map[job]*fused{}}
	if err := s.allocate(columns); err != nil {
		s.Release()
		return nil, fmt.Errorf("optim: %s: %w", t.name, err)
	}
	return s, nil
}

func (s *State) allocate(columns []float32) error {
	names, slots := s.plan.state()
	for i, slot := range slots {
		tree, err := buffers.NewTree(s.device, "optim."+names[i], s.layout, slot.dtype)
		if err != nil {
			return err
		}
		s.trees = append(s.trees, NamedTree{names[i], tree})
	}
	var err error
	if s.scalars, err = s.device.NewUniform("gputrain.optim.scalars", s.plan.uniformBytes()); err != nil {
		return err
	}
	for slab := range s.layout.Slabs() {
		words, values := s.plan.table(s.layout, slab, columns)
		b, err := s.device.NewBuffer(fmt.Sprintf("gputrain.optim.table.%d", slab), 4*uint64(len(words)))
		if err != nil {
			return err
		}
		s.tables = append(s.tables, slabTable{b, values})
		data := make([]byte, 0, 4*len(words))
		for _, w := range words {
			data = binary.LittleEndian.AppendUint32(data, w)
		}
		if err := s.device.Write(b.All(), data); err != nil {
			return err
		}
	}
	if len(s.plan.norms) == 0 {
		return nil
	}
	if s.statistics, err = s.device.NewBuffer("gputrain.optim.statistics", uint64(len(s.plan.norms))*StatisticsBytes); err != nil {
		return err
	}
	s.groups = normGroups(s.layout)
	s.partials, err = s.device.NewBuffer("gputrain.optim.partials", partialBytes(s.groups))
	return err
}

// normGroups is the number of workgroups that measure each slab.
func normGroups(layout *buffers.Layout) []uint32 {
	var groups []uint32
	for _, n := range layout.Slabs() {
		const each = 4 * lanes * normSteps
		groups = append(groups, uint32((n+each-1)/each))
	}
	return groups
}

func partialBytes(groups []uint32) uint64 {
	pairs := uint64(1)
	for _, g := range groups {
		pairs += uint64(g)
	}
	return 8 * pairs
}

// Trees lists the state, in a fixed order. To restore one, write its leaves and SetCounts.
func (s *State) Trees() []NamedTree { return s.trees }

// Counts tells how often what has happened: "updates", "mini_step" where gradients are accumulated, and one count for each
// element of the chain that has scalars.
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

// Phase is what the next call does: Emit, or Collect for the first k-1 of k calls.
func (s *State) Phase() Phase { return s.plan.phase(s.counts) }

// Phases lists what calls can do; a trainer that submits prebuilt programs makes one for each.
func (s *State) Phases() []Phase {
	if s.plan.transform.accumulate > 1 {
		return []Phase{Collect, Emit}
	}
	return []Phase{Emit}
}

// Prepare begins a call: it writes the call's scalars to the device, ordered before the next submit, advances the counts
// and tells what recording to submit. Rates and bias corrections are evaluated in float64.
func (s *State) Prepare() (Phase, error) {
	phase := s.Phase()
	values := s.plan.evaluate(s.counts)
	data := make([]byte, 0, s.plan.uniformBytes())
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(s.counts[updatesCount]))
	if err := s.device.Write(s.scalars.All(), data[:s.plan.uniformBytes()]); err != nil {
		return phase, fmt.Errorf("optim: %s: scalars: %w", s.plan.transform.name, err)
	}
	if phase == Emit {
		s.rate = s.plan.rate(values)
	}
	s.plan.advance(s.counts, phase)
	return phase, nil
}

// LearningRate is the rate of the last update that Prepare began; 0 before the first, and where the chain has none.
func (s *State) LearningRate() float64 { return s.rate }

// Statistics is where updates leave what they measured, StatisticsBytes for each place in the chain that measures: the
// first is the gradient's. It has no bytes where nothing measures.
func (s *State) Statistics() gpu.Range {
	if s.statistics == nil {
		return gpu.Range{}
	}
	return s.statistics.All()
}

// Bytes is what the state takes on the device, the tables beside it included: Transform.Bytes of the layout.
func (s *State) Bytes() uint64 {
	n := s.scalars.Bytes()
	for _, t := range s.trees {
		n += t.Tree.Bytes()
	}
	for _, t := range s.tables {
		n += t.buffer.Bytes()
	}
	if s.statistics != nil {
		n += s.statistics.Bytes() + s.partials.Bytes()
	}
	return n
}

// Release gives the memory back.
func (s *State) Release() {
	for _, t := range s.trees {
		t.Tree.Release()
	}
	for _, t := range s.tables {
		t.buffer.Release()
	}
	for _, b := range []*gpu.Buffer{s.scalars, s.statistics, s.partials} {
		if b != nil {
			b.Release()
		}
	}
	s.trees, s.tables = nil, nil
}
