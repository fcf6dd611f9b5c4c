package optim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/array"
)

// Twin runs a transformation in plain Go: the unfused chain, one element after another over whole leaves, in
// float64. It is the definition that the device is held to. Params and state are rounded to their storage type
// after every call, as on the device; everything between is float64.
type Twin struct {
	plan    *plan
	leaves  []buffers.Leaf
	params  [][]float64
	state   [][][]float64 // slot, leaf
	coded   [][]coded     // likewise, of leaves in codes
	table   *resolved
	twins   []OperatorTwin // one a segment but the last
	counts  map[string]int64
	scale   float64 // of the next gradients, where the transformation takes it out; 0: 1
	update  uint32  // index of the update in hand
	norms   []float64
	rows    [][]rowNorms // by leaf, where the plan has a rowRule
	bad     []bool
	sums    [][]float64 // measurement, leaf
	skipped int
	left    uint32 // why the update in hand is left out, as Statistics has it on the device
	limits  Limits
	losses  []float64
	moved   bool // for the update in hand
	ahead   []buffers.Host
}

// NewTwin copies params; whole is the leaves of the model that they are a stage of, none if they are all of it.
func NewTwin(t Transform, params []buffers.Host, whole ...buffers.Spec) (*Twin, error) {
	p, err := newPlan(t)
	if err != nil {
		return nil, err
	}
	w := &Twin{plan: p, counts: p.newCounts(), norms: make([]float64, len(p.norms)), bad: make([]bool, len(p.norms)), sums: make([][]float64, len(p.measured))}
	params = slices.Clone(params)
	slices.SortFunc(params, func(a, b buffers.Host) int { return strings.Compare(a.Path, b.Path) })
	for i, h := range params {
		w.leaves = append(w.leaves, buffers.Leaf{Path: h.Path, Shape: h.Shape, OutIn: h.OutIn, Index: i})
		w.params = append(w.params, widen(h.Data))
	}
	if len(whole) == 0 {
		whole = specs(w.leaves)
	}
	all := t.whole(whole)
	if w.table, err = p.resolve(w.leaves, all); err != nil {
		return nil, err
	}
	for _, s := range p.steps {
		for _, slot := range s.Slots {
			w.state, w.coded = append(w.state, nil), append(w.coded, make([]coded, len(params)))
			for i, x := range w.params {
				data := make([]float64, len(x))
				for k := range data {
					data[k] = store(slot.Initial, slot.DType)
				}
				w.state[len(w.state)-1] = append(w.state[len(w.state)-1], data)
				if slot.inCodes(w.leaves[i]) {
					w.coded[len(w.state)-1][i] = coded{make([]byte, len(x)), make([]float64, (len(x)+codeBlock-1)/codeBlock)}
				}
			}
		}
		if s.operator != nil {
			on, err := p.scene(s, nil, nil, w.leaves, all, w.table)
			if err != nil {
				return nil, fmt.Errorf("optim: %s: %s: %w", t.name, s.Name, err)
			}
			on.twins = w.twins
			o, err := s.operator.Twin(on)
			if err != nil {
				return nil, fmt.Errorf("optim: %s: %s: %w", t.name, s.Name, err)
			}
			w.twins = append(w.twins, o)
		}
	}
	return w, nil
}

// Update makes one call with the gradients of all leaves, in any order.
func (w *Twin) Update(grads []buffers.Host) error {
	u := make([][]float64, len(w.leaves))
	for _, g := range grads {
		i := slices.IndexFunc(w.leaves, func(l buffers.Leaf) bool { return l.Path == g.Path })
		if i < 0 || len(g.Data) != len(w.params[i]) {
			return fmt.Errorf("optim: twin: grads: leaf %q: found %d elements, wanted those of a param", g.Path, len(g.Data))
		}
		u[i] = widen(g.Data)
	}
	for i, l := range w.leaves {
		if u[i] == nil {
			return fmt.Errorf("optim: twin: grads: leaf %q: found none", l.Path)
		}
	}
	w.Move()
	phase := w.plan.phase(w.counts)
	scalars := w.plan.evaluate(w.counts, given{scale: w.scale})
	w.update = uint32(w.counts[updatesCount])
	at := maps.Clone(w.counts)
	w.plan.advance(w.counts, phase)
	if phase == Collect {
		s := w.plan.steps[0]
		for leaf, acc := range w.state[s.firstSlot] {
			for i := range acc {
				acc[i] = store(acc[i]+(u[leaf][i]-acc[i])/scalars[s.firstScalar], buffers.F32)
			}
		}
		return nil
	}
	w.emit(u, scalars, at)
	w.moved = false
	return nil
}

// Move moves the params to where the gradients of the next update are taken, once; Update does so otherwise.
func (w *Twin) Move() {
	at := w.plan.apart("lookahead")
	if at < 0 || w.moved {
		return
	}
	w.moved = true
	s := w.plan.steps[at]
	scale := w.plan.evaluate(w.counts, given{})[s.firstScalar]
	for leaf, p := range w.params {
		for k := range p {
			p[k] = store(p[k]+scale*w.state[s.firstSlot][leaf][k], buffers.F32)
		}
	}
	w.ahead = w.Params()
}

// Moved gives the params at which the gradients of the last update were taken.
func (w *Twin) Moved() []buffers.Host { return w.ahead }

// Evaluated gives the params as they are evaluated, with the share that the mean has in them.
func (w *Twin) Evaluated() []buffers.Host {
	out := w.Params()
	if from, ok := w.plan.averagesFrom(); !ok || w.counts[updatesCount] < from {
		return out
	}
	blend := w.plan.steps[w.plan.apart("average")].blend
	for _, a := range w.State("average") {
		to := out[slices.IndexFunc(out, func(h buffers.Host) bool { return h.Path == a.Path })]
		for k, v := range a.Data {
			to.Data[k] = float32((1-blend)*float64(to.Data[k]) + blend*float64(v))
		}
	}
	return out
}

// emit runs the chain over u and stores the update, unless it is not finite and is to be skipped.
func (w *Twin) emit(u [][]float64, scalars []float64, counts map[string]int64) {
	next := make([][][]float64, len(w.state))
	for i := range next {
		next[i] = make([][]float64, len(w.leaves))
		for leaf := range w.leaves {
			next[i][leaf] = slices.Clone(w.state[i][leaf])
		}
	}
	operators, early := w.twins, uint32(0)
	w.left = 0
	var kept [][]float64 // u, while a copy of it is worked on
	for i, s := range w.plan.steps {
		if s.aside && kept == nil {
			kept = u
			u = slices.Clone(u)
			for leaf := range u {
				u[leaf] = slices.Clone(u[leaf])
			}
		}
		w.measure(i, u)
		if s.operator == nil {
			if s.rows != nil {
				w.rowNorms(s, u, scalars)
			}
			w.run(s, u, next, scalars)
			continue
		}
		operators[0].Update(counts[s.count], u, w.params, w.left != 0)
		operators, early = operators[1:], w.left
		if s.aside {
			u, kept = kept, nil
		}
	}
	w.measure(len(w.plan.steps), u)
	if w.left != 0 {
		w.skipped++
	}
	last := w.plan.steps[w.plan.segments[len(w.plan.segments)-1].first:] // what is stored when all is known
	_, slots := w.plan.state()
	for i := range next {
		kept := i == 0 && w.plan.transform.accumulate > 1 // the accumulation is reset all the same
		left := w.left
		if len(last) == 0 || i < last[0].firstSlot {
			left = early
		}
		for leaf := range w.leaves {
			if left != 0 && !kept && !slots[i].kept {
				continue
			}
			for k, v := range next[i][leaf] {
				if slots[i].Dither {
					v = dithered(v, w.leaves[leaf].Path, w.update, i, k)
				}
				w.state[i][leaf][k] = store(v, slots[i].DType)
			}
			if slots[i].inCodes(w.leaves[leaf]) {
				copy(w.state[i][leaf], next[i][leaf])
				w.coded[i][leaf] = slots[i].levels().encode(w.state[i][leaf])
			}
		}
	}
	for leaf, p := range w.params {
		for k := range p {
			if w.left == 0 || w.plan.restores() {
				p[k] = store(p[k]+u[leaf][k], buffers.F32)
			}
		}
	}
}

// run applies one element to every number of every leaf.
func (w *Twin) run(s step, u [][]float64, state [][][]float64, scalars []float64) {
	c := Cell{Slots: make([]float64, len(s.Slots)), Scalars: scalars[s.firstScalar:], columns: make([]float64, len(s.columns))}
	if s.norm >= 0 {
		c.Norm, c.Bad = w.norms[s.norm], w.bad[s.norm]
	}
	c.Left = w.left != 0
	for leaf := range w.leaves {
		if s.route >= 0 && !w.table.chosen[s.route][leaf] {
			continue
		}
		for i := range c.columns {
			c.columns[i] = float64(w.table.values[leaf*w.table.width+s.firstColumn+i])
		}
		c.LeafElements = float64(len(u[leaf]))
		if s.leafSum >= 0 {
			c.LeafSquares = w.sums[s.leafSum][leaf]
		}
		if s.paramSum >= 0 {
			c.ParamSquares = w.sums[s.paramSum][leaf]
		}
		for k := range u[leaf] {
			c.U, c.P = u[leaf][k], w.params[leaf][k]
			if s.rows != nil {
				c.row = rowNorms{}
				if g := w.table.rows[leaf]; g.count > 0 {
					c.row = w.rows[leaf][g.rowOf(k)]
				}
			}
			for i := range c.Slots {
				c.Slots[i] = state[s.firstSlot+i][leaf][k]
			}
			s.Twin(&c)
			u[leaf][k] = c.U
			for i := range c.Slots {
				state[s.firstSlot+i][leaf][k] = c.Slots[i]
			}
		}
	}
}

// measure takes the norms and the sums by leaf that stand before a step.
func (w *Twin) measure(before int, u [][]float64) {
	for j, m := range w.plan.measured {
		if m.before != before {
			continue
		}
		of := u
		if m.params {
			of = w.params
		}
		w.sums[j] = make([]float64, len(of))
		all, bad := 0.0, false
		for leaf, values := range of {
			for _, x := range values {
				w.sums[j][leaf] += x * x
				bad = bad || math.IsNaN(x) || math.IsInf(x, 0)
			}
			all += w.sums[j][leaf]
		}
		if m.norm >= 0 {
			w.norms[m.norm], w.bad[m.norm] = math.Sqrt(all), bad
			w.guarded(m.norm)
		}
	}
}

// Params gives the params as they are stored.
func (w *Twin) Params() []buffers.Host { return w.host(w.params, -1) }

// State gives a tree of the elementwise state as it is stored; nil if there is none of that name.
func (w *Twin) State(name string) []buffers.Host {
	var out []buffers.Host
	for _, s := range w.plan.steps {
		if i := slices.Index(s.slotNames, name); i >= 0 {
			out = append(out, w.host(w.state[s.firstSlot+i], s.route)...)
		}
	}
	return out
}

// Tensors gives all state as it is stored, by the names of State.Tensors.
func (w *Twin) Tensors() []buffers.Host {
	var out []buffers.Host
	for _, s := range w.plan.steps {
		if w.counts[updatesCount] < s.from {
			continue
		}
		for i, name := range s.slotNames {
			for _, h := range w.host(w.state[s.firstSlot+i], s.route) {
				at := slices.IndexFunc(w.leaves, func(l buffers.Leaf) bool { return l.Path == h.Path })
				h.Path = name + "/" + h.Path
				if s.Slots[i].inCodes(w.leaves[at]) {
					out = append(out, w.coded[s.firstSlot+i][at].hosts(h.Path, h.Shape)...)
					continue
				}
				out = append(out, h)
			}
		}
	}
	for _, o := range w.twins {
		out = append(out, o.Tensors()...)
	}
	return out
}

// Statistics are the statistics of the last update.
func (w *Twin) Statistics() Statistics {
	s := Statistics{Skipped: uint32(w.skipped), Spikes: Spike(w.left &^ 1)}
	if len(w.norms) > 0 {
		s.Norm, s.NonFinite = float32(w.norms[0]), w.bad[0] || w.left&1 != 0
	}
	return s
}

// host gives values of the leaves on a route, of all for -1.
func (w *Twin) host(values [][]float64, route int) []buffers.Host {
	var out []buffers.Host
	for i, l := range w.leaves {
		if route >= 0 && !w.table.chosen[route][i] {
			continue
		}
		data := make([]float32, len(values[i]))
		for k, v := range values[i] {
			data[k] = float32(v)
		}
		out = append(out, buffers.Host{Path: l.Path, Shape: l.Shape, Data: data})
	}
	return out
}

func widen(data []float32) []float64 {
	out := make([]float64, len(data))
	for i, v := range data {
		out[i] = float64(v)
	}
	return out
}

// store rounds x as a tree of that dtype does.
func store(x float64, d buffers.DType) float64 {
	if d == buffers.BF16 {
		return roundBF16(x)
	}
	return float64(float32(x))
}

// roundBF16 rounds to the nearest bf16, ties to even.
func roundBF16(x float64) float64 { return float64(array.DecodeBF16(array.EncodeBF16(float32(x)))) }

// Counts are the same as State.Counts.
func (w *Twin) Counts() map[string]int64 { return maps.Clone(w.counts) }
