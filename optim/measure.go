package optim

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// measurements has the measurements of a state. Each measurement is a pair a leaf: sum of squares (f32) and non-finite
// flag (u32). A pair is put together of groups of the leaf's elements, counted from the start of each part of the leaf,
// so that it has the same bits wherever the leaf lies and whatever lies beside it. A norm puts the pairs of all leaves
// of the model together, in the order of their paths.
type measurements struct {
	*gpu.Set
	leaves, whole uint32
	groups        []uint32    // of each slab
	firsts        *gpu.Buffer // the first group of each leaf among all, and after the last
	partials      *gpu.Buffer // a pair a group
	pairs         *gpu.Buffer // of each measurement, by leaf
	combined      *gpu.Buffer // of each norm, by leaf of the whole model; nil where pairs has them all
	statistics    *gpu.Buffer // of each norm; nil where there is none
	guard         *gpu.Buffer // limits and losses; nil where there is no guard
}

const (
	pairBytes  = 8
	groupWords = 3 // in a table: first vec4 in the slab, number of them, place among all groups
	groupVecs  = lanes * normSteps
)

// groupTables cuts leaves into groups: the words of each slab's table, and the first group of each leaf.
func groupTables(layout *buffers.Layout) (tables [][]uint32, firsts []uint32) {
	tables = make([][]uint32, len(layout.Slabs()))
	next := uint32(0)
	for _, leaf := range layout.Leaves() {
		firsts = append(firsts, next)
		for _, part := range leaf.Parts {
			vecs := (part.Count + 3) / 4
			for at := 0; at < vecs; at += groupVecs {
				tables[part.Slab] = append(tables[part.Slab], uint32(part.Offset/4+at), uint32(min(vecs-at, groupVecs)), next)
				next++
			}
		}
	}
	return tables, append(firsts, next)
}

func newMeasurements(dev *gpu.Device, p *plan, layout *buffers.Layout, whole int) (*measurements, error) {
	m := &measurements{Set: dev.NewSet("gputrain.optim"), leaves: uint32(len(layout.Leaves())), whole: uint32(whole)}
	tables, firsts := groupTables(layout)
	for _, t := range tables {
		m.groups = append(m.groups, uint32(len(t)/groupWords))
	}
	m.firsts = m.Filled("firsts", firsts)
	pairs := func(name string, n int) *gpu.Buffer { return m.Zeros(name, pairBytes*uint64(max(n, 1))) } // a binding has one or more
	m.partials = pairs("partials", int(firsts[len(firsts)-1]))
	m.pairs = pairs("pairs", len(p.measured)*int(m.leaves))
	if norms := uint64(len(p.norms)); norms > 0 {
		m.statistics = m.Zeros("statistics", StatisticsBytes*norms)
		if m.leaves != m.whole {
			m.combined = pairs("combined", len(p.norms)*whole)
		}
		if n := p.transform.guard.Losses; n > 0 {
			m.guard = m.Zeros("guard", guardLimits+4*uint64(n))
		}
	}
	return m, m.Err()
}

// byLeaf records the kernel that puts the groups of a measurement together.
func (m *measurements) byLeaf(rec *gpu.Recording, measurement int, limits gpu.Limits) {
	k := operatorKernel("norm_leaf", "norm_leaf", nil, nil)
	rec.Dispatch(k, gpu.Linear(uint64(m.leaves), 1, limits), struct{ Leaves, Base uint32 }{m.leaves, uint32(measurement) * m.leaves},
		m.firsts.All(), m.partials.All(), m.pairs.All())
}

// total records the kernel that puts the leaves of a norm together.
func (m *measurements) total(rec *gpu.Recording, p *plan, norm int) {
	from, base := m.pairs, uint32(p.norms[norm])*m.leaves
	if m.combined != nil {
		from, base = m.combined, uint32(norm)*m.whole
	}
	skips := uint32(0)
	if p.transform.skip && norm == 0 {
		skips = 1
	}
	params := struct{ Leaves, Base, Norm, Skips uint32 }{m.whole, base, uint32(norm), skips}
	rec.Dispatch(operatorKernel("norm_total", "norm_total", nil, nil), gpu.Grid{X: 1, Y: 1, Z: 1}, params, from.All(), m.statistics.All())
}

// Rounds is the number of pieces in which a stage's update is recorded: one more than the norms that it measures.
func (s *State) Rounds() int { return len(s.plan.norms) + 1 }

// Measured is where piece round of an update, except for the last, leaves its norm: eight bytes a leaf of this state,
// in their order.
func (s *State) Measured(round int) gpu.Range {
	bytes := pairBytes * uint64(s.measurements.leaves)
	return s.measurements.pairs.Range(uint64(s.plan.norms[round])*bytes, bytes)
}

// Combined is where piece round+1 expects the norm of piece round: eight bytes a leaf of the whole model, in the order of their paths.
// Where the state is of the whole model, it is Measured.
func (s *State) Combined(round int) gpu.Range {
	if s.measurements.combined == nil {
		return s.Measured(round)
	}
	bytes := pairBytes * uint64(s.measurements.whole)
	return s.measurements.combined.Range(uint64(round)*bytes, bytes)
}

// GatherNorms joins the measurements of a round for the leaves of a model, wherever they lie, to the pairs that each
// place needs in State.Combined, whose size dst has. measured are the bytes of State.Measured of each place, one after
// the other, and layouts what leaves they are of; s is any of the states. Errors: sizes that do not match, a leaf of
// the model that is in no layout or in two.
func (s *State) GatherNorms(dst []byte, layouts []*buffers.Layout, measured []byte) error {
	sizes := func() error {
		return fmt.Errorf("optim: gather norms: found %d bytes and room for %d, wanted %d: %d for each of %d leaves",
			len(measured), len(dst), pairBytes*len(s.whole), pairBytes, len(s.whole))
	}
	if len(dst) != pairBytes*len(s.whole) {
		return sizes()
	}
	seen, rest := make([]bool, len(s.whole)), measured
	for i, layout := range layouts {
		for _, leaf := range layout.Leaves() {
			place, found := slices.BinarySearch(s.whole, leaf.Path)
			if !found || seen[place] {
				return fmt.Errorf("optim: gather norms: place %d: leaf %q: found it twice or not in the model of %d, wanted each leaf once", i, leaf.Path, len(s.whole))
			}
			if len(rest) < pairBytes {
				return sizes()
			}
			seen[place] = true
			copy(dst[pairBytes*place:], rest[:pairBytes])
			rest = rest[pairBytes:]
		}
	}
	if place := slices.Index(seen, false); place >= 0 {
		return fmt.Errorf("optim: gather norms: leaf %q: found it in none of %d places, wanted all leaves of the model", s.whole[place], len(layouts))
	}
	if len(rest) > 0 {
		return sizes()
	}
	return nil
}
