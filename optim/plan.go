package optim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gputrain/buffers"
)

// A plan is a transformation laid out for running: names made unique, the measurements that it needs found. It
// knows of no device and no leaves, so that device and twin run the same plan.
type plan struct {
	transform Transform
	steps     []step
	segments  []segment
	routes    [][]membership
	measured  []measurement
	norms     []int // norm j is of measurement norms[j]; they ascend
	slots     int
	scalars   int
	columns   int
	rows      int // the step with a rowRule; -1: none
}

// A segment is a run of elementwise steps, first to before end, and the operator that ends it: step end, except for the
// last segment. Each is one fused kernel; between two lies the update in a tree of its own. Behind an operator that is aside the next segment
// begins where this one did, without the steps that are aside.
type segment struct {
	first, end int
	from       int // the first step that no segment before it has
	last       bool
	aside      bool // nothing is stored but the update
}

// A measurement is the sum of squares over each leaf of the update before a step, or of the parameters, and whether something is not
// finite. A norm is what all leaves come to together.
type measurement struct {
	before int
	params bool
	norm   int // -1 where only leaves are asked for
}

// A step is an element with its places among all slots, scalars and columns, and the name of its count.
type step struct {
	Element
	count                               string
	slotNames                           []string
	firstSlot, firstScalar, firstColumn int
	route                               int // which of the plan's routes; -1 where it acts on every leaf
	norm                                int // which norm $norm is; -1 where it asks for none
	leafSum, paramSum                   int // which measurements $leaf_squares and $param_squares are of; -1 likewise
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
		elements = append([]Element{collector(t.accumulate)}, elements...)
	}
	if t.scaled {
		elements = append([]Element{unscale}, elements...)
	}
	first := t.accumulate > 1 || t.scaled // makes the gradient of what comes in
	p := &plan{transform: t, rows: -1}
	counts := map[string]bool{updatesCount: true}
	slots := map[string]bool{}
	update, params := -1, -1 // the measurements that still hold
	if t.skip && !first {
		p.norm(&update, 0)
	}
	begin, from, held := 0, 0, -1
	aside := false
	for i, e := range elements {
		s := step{Element: e, norm: -1, leafSum: -1, paramSum: -1, firstSlot: p.slots, firstScalar: p.scalars, firstColumn: p.columns}
		s.route = p.route(e.routes)
		if e.aside && !aside {
			aside, held = true, update
		}
		if t.accumulate > 1 && i == 0 {
			s.count = miniStepCount
			counts[s.count] = true
		} else {
			s.count = unique(counts, e.Name)
		}
		for _, slot := range e.Slots {
			name := slot.Name
			if !e.alongside {
				name = unique(slots, name)
			}
			s.slotNames = append(s.slotNames, name)
		}
		if e.measures() {
			s.norm = p.norm(&update, i)
		}
		if e.asks("$leaf_squares") {
			s.leafSum = p.measure(&update, measurement{before: i})
		}
		if e.asks("$param_squares") {
			s.paramSum = p.measure(&params, measurement{before: i, params: true})
		}
		if e.asks("$leaf_elements") {
			s.columns = append(slices.Clone(s.columns), column{"leaf_elements", leafElements})
		}
		if e.rows != nil {
			if p.rows >= 0 {
				return nil, fmt.Errorf("optim: %s: found rows measured a second time, wanted once", e.Name)
			}
			p.rows = i
			s.columns = append(slices.Clone(s.columns), e.rows.columnsOf()...)
		}
		if !e.keeps {
			update = -1
		}
		p.slots += len(s.Slots)
		p.scalars += len(s.Scalars)
		p.columns += len(s.columns)
		p.steps = append(p.steps, s)
		if e.operator != nil {
			p.segments = append(p.segments, segment{first: begin, from: from, end: i, aside: e.aside})
			from = i + 1
			if !e.aside {
				begin = from
			} else if aside, update = false, held; begin > 0 {
				return nil, fmt.Errorf("optim: %s: found it aside behind an operator, wanted it before all others", e.Name)
			}
		}
		if t.skip && first && i == 0 {
			p.norm(&update, 1)
		}
	}
	p.segments = append(p.segments, segment{first: begin, from: from, end: len(p.steps), last: true})
	return p, nil
}

// within is the elementwise steps of a segment that stand before a step.
func (p *plan) within(s segment, before int) []step {
	var out []step
	for i, e := range p.steps[s.first:before] {
		if !e.aside || s.first+i >= s.from {
			out = append(out, e)
		}
	}
	return out
}

// measure gives the measurement that holds, or adds it.
func (p *plan) measure(holds *int, m measurement) int {
	if *holds < 0 {
		m.norm = -1
		p.measured = append(p.measured, m)
		*holds = len(p.measured) - 1
	}
	return *holds
}

// norm is the norm of the update before a step, whose measurement may have been there for its leaves.
func (p *plan) norm(holds *int, before int) int {
	m := &p.measured[p.measure(holds, measurement{before: before})]
	if m.norm < 0 {
		m.norm = len(p.norms)
		p.norms = append(p.norms, *holds)
	}
	return m.norm
}

// route finds the route of an element among the plan's routes.
func (p *plan) route(r []membership) int {
	if len(r) == 0 {
		return -1
	}
	for i, have := range p.routes {
		if slices.Equal(have, r) {
			return i
		}
	}
	p.routes = append(p.routes, r)
	return len(p.routes) - 1
}

// segmentOf is the segment that makes the measurements before a step.
func (p *plan) segmentOf(before int) int {
	return slices.IndexFunc(p.segments, func(s segment) bool { return before <= s.end })
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
		if len(s.Scalars) > 0 || s.operator != nil {
			counts[s.count] = 0
		}
	}
	return counts
}

// phase is the phase of the next call; whether it is Reuse, operators tell when it is prepared.
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

// given is what a call is told: its rate, nil for the schedule's, the scale of its gradients, 0 for 1, and whether it is eformer's stage-local.
type given struct {
	lr     Schedule
	scale  float64
	staged bool
}

// evaluate gives the scalars of a call, in float64.
func (p *plan) evaluate(counts map[string]int64, call given) []float64 {
	values := make([]float64, 0, p.scalars)
	for _, s := range p.steps {
		for _, c := range s.Scalars {
			switch {
			case c.first && counts[miniStepCount] > 0:
				values = append(values, 0)
			case call.lr != nil && c.of != nil:
				values = append(values, c.of(counts[s.count], call.lr(counts[s.count])))
			case c.inverse:
				values = append(values, 1/cmp.Or(call.scale, 1))
			case c.staged && call.staged:
				values = append(values, 1)
			default:
				values = append(values, c.At(counts[s.count]))
			}
		}
	}
	return values
}

// state describes the trees that the state has: name and dtype, in order.
func (p *plan) state() (names []string, slots []Slot) {
	for _, s := range p.steps {
		names = append(names, s.slotNames...)
		slots = append(slots, s.Slots...)
	}
	return names, slots
}

// uniformBytes is the size of the scalars of one call on the device: f32 words, and last the index of the update. It is a multiple of 128, for the size
// stands in the kernels' text, which plans that differ elsewhere share.
func (p *plan) uniformBytes() uint64 { return uint64(p.scalars+1+31) / 32 * 128 }

// width is how many values the table has of a leaf.
func (p *plan) width() int { return p.columns + len(p.routes) }

// stride is the number of words that a block of elements has in the table.
func (p *plan) stride() int {
	if p.codes() {
		return p.codesWord() + 1
	}
	return p.routeWord(len(p.routes))
}

// codesWord is where the table says which word of the trees in eight bits has the beginning of a block.
func (p *plan) codesWord() int { return p.routeWord(len(p.routes)) }

// codes tells whether there are such trees.
func (p *plan) codes() bool {
	_, slots := p.state()
	return slices.ContainsFunc(slots, func(s Slot) bool { return s.DType == buffers.U8 })
}

// routeWord is where the table says which block of a route's own trees belongs to a block.
func (p *plan) routeWord(route int) int {
	if p.located() {
		return 3 + route
	}
	return 1 + route
}

// located tells whether the table says where in its leaf a block begins.
func (p *plan) located() bool { return p.rows >= 0 || p.dithers() }

func (p *plan) dithers() bool {
	_, slots := p.state()
	return slices.ContainsFunc(slots, func(s Slot) bool { return s.Dither })
}

// measures tells whether the element asks for the statistics of the update before it.
func (e Element) measures() bool { return e.asks("$norm") || e.asks("$bad") }

func (e Element) asks(name string) bool {
	return slices.Contains(placeholder.FindAllString(e.WGSL, -1), name)
}

// rate finds the learning rate among the scalars of a call.
func (p *plan) rate(values []float64) float64 {
	for _, s := range p.steps {
		for i, c := range s.Scalars {
			if c.Name == rateScalar {
				return values[s.firstScalar+i]
			}
		}
	}
	return 0
}
