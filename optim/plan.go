package optim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gputrain/buffers"
)

// A plan is a transformation laid out for running: names made unique, the measurements that it needs found. It
// knows of no device and no leaves, so that device and twin run the same plan.
type plan struct {
	transform Transform
	steps     []step
	norms     []int // norm j measures the update before step norms[j]
	slots     int
	scalars   int
	columns   int
}

// A step is an element with its places among all slots, scalars and columns, and the name of its count.
type step struct {
	element
	count                               string
	slotNames                           []string
	firstSlot, firstScalar, firstColumn int
	norm                                int // which norm $norm is; -1 where it asks for none
}

// Names of the counts that every state has: emitted updates, and calls collected since the last one.
const (
	updatesCount  = "updates"
	miniStepCount = "mini_step"
)

func newPlan(t Transform) (*plan, error) {
	if t.err != nil {
		return nil, fmt.Errorf("optim: %w", t.err)
	}
	elements := t.elements
	if t.accumulate > 1 {
		elements = append([]element{collector(t.accumulate)}, elements...)
	}
	p := &plan{transform: t}
	counts := map[string]bool{updatesCount: true}
	slots := map[string]bool{}
	unchanged := -1 // the norm that still holds for the running update
	if t.skip && t.accumulate <= 1 {
		unchanged = p.addNorm(0)
	}
	for i, e := range elements {
		s := step{element: e, norm: -1, firstSlot: p.slots, firstScalar: p.scalars, firstColumn: p.columns}
		if t.accumulate > 1 && i == 0 {
			s.count = miniStepCount
			counts[s.count] = true
		} else {
			s.count = unique(counts, e.name)
		}
		for _, slot := range e.slots {
			s.slotNames = append(s.slotNames, unique(slots, slot.name))
		}
		if e.measures() {
			if unchanged < 0 {
				unchanged = p.addNorm(i)
			}
			s.norm = unchanged
		}
		if !e.keeps {
			unchanged = -1
		}
		p.slots += len(e.slots)
		p.scalars += len(e.scalars)
		p.columns += len(e.columns)
		p.steps = append(p.steps, s)
		if t.skip && t.accumulate > 1 && i == 0 {
			unchanged = p.addNorm(1)
		}
	}
	return p, nil
}

func (p *plan) addNorm(before int) int {
	p.norms = append(p.norms, before)
	return len(p.norms) - 1
}

// unique returns name, or name_2, name_3 where it is taken, and takes it.
func unique(taken map[string]bool, name string) string {
	free := name
	for n := 2; taken[free]; n++ {
		free = name + "_" + strconv.Itoa(n)
	}
	taken[free] = true
	return free
}

// newCounts is the counts of a fresh state: one for each step that has scalars, and the common ones.
func (p *plan) newCounts() map[string]int64 {
	counts := map[string]int64{updatesCount: 0}
	for _, s := range p.steps {
		if len(s.scalars) > 0 {
			counts[s.count] = 0
		}
	}
	return counts
}

// phase is what the next call does.
func (p *plan) phase(counts map[string]int64) Phase {
	if k := int64(p.transform.accumulate); k > 1 && counts[miniStepCount] < k-1 {
		return Collect
	}
	return Emit
}

// advance counts a call of that phase.
func (p *plan) advance(counts map[string]int64, phase Phase) {
	if phase == Collect {
		counts[miniStepCount]++
		return
	}
	for name := range counts {
		counts[name]++
	}
	if p.transform.accumulate > 1 {
		counts[miniStepCount] = 0
	}
}

// evaluate gives the scalars of a call, in float64.
func (p *plan) evaluate(counts map[string]int64) []float64 {
	values := make([]float64, 0, p.scalars)
	for _, s := range p.steps {
		for _, c := range s.scalars {
			values = append(values, c.at(counts[s.count]))
		}
	}
	return values
}

// resolve gives the columns of each leaf: values[leaf*columns + column].
func (p *plan) resolve(leaves []buffers.Leaf, whole []string) ([]float32, error) {
	table := make([]float32, len(leaves)*p.columns)
	for _, s := range p.steps {
		for c, col := range s.columns {
			values, err := col.values(leaves, whole)
			if err != nil {
				return nil, fmt.Errorf("optim: %s: %w", s.name, err)
			}
			for leaf, v := range values {
				table[leaf*p.columns+s.firstColumn+c] = v
			}
		}
	}
	return table, nil
}

// state describes the trees that the state has: name and dtype, in order.
func (p *plan) state() (names []string, slots []slot) {
	for _, s := range p.steps {
		names = append(names, s.slotNames...)
		slots = append(slots, s.slots...)
	}
	return names, slots
}

// uniformBytes is the size of the scalars of one call on the device: f32 words, and last the index of the update.
func (p *plan) uniformBytes() uint64 { return uint64(p.scalars+1+3) / 4 * 16 }

// stride is the number of words that a block of elements has in the table.
func (p *plan) stride() int {
	if p.dithers() {
		return 3
	}
	return 1
}

func (p *plan) dithers() bool {
	_, slots := p.state()
	return slices.ContainsFunc(slots, func(s slot) bool { return s.dither })
}

// measures tells whether the element asks for the statistics of the update before it.
func (e element) measures() bool {
	return strings.Contains(e.wgsl, "$norm") || strings.Contains(e.wgsl, "$bad")
}

// rate finds the learning rate among the scalars of a call.
func (p *plan) rate(values []float64) float64 {
	for _, s := range p.steps {
		for i, c := range s.scalars {
			if c.name == rateScalar {
				return values[s.firstScalar+i]
			}
		}
	}
	return 0
}
