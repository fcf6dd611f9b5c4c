package optim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gputrain/buffers"
)

// Twin runs a transformation in plain Go: the unfused chain, one element after another over whole leaves, in
// float64. It is the definition that the device is held to. Params and state are rounded to their storage type
// after every call, as on the device; everything between is float64.
type Twin struct {
	plan    *plan
	leaves  []buffers.Leaf
	params  [][]float64
	state   [][][]float64 // slot, leaf
	columns []float32
	counts  map[string]int64
	update  uint32 // index of the update in hand
	norms   []float64
	bad     []bool
	skipped int
}

// NewTwin copies params; whole is the paths of the model that they are a stage of, none if they are all of it.
func NewTwin(t Transform, params []buffers.Host, whole ...string) (*Twin, error) {
	p, err := newPlan(t)
	if err != nil {
		return nil, err
	}
	w := &Twin{plan: p, counts: p.newCounts(), norms: make([]float64, len(p.norms)), bad: make([]bool, len(p.norms))}
	params = slices.Clone(params)
	slices.SortFunc(params, func(a, b buffers.Host) int { return strings.Compare(a.Path, b.Path) })
	for i, h := range params {
		w.leaves = append(w.leaves, buffers.Leaf{Path: h.Path, Shape: h.Shape, Index: i})
		w.params = append(w.params, widen(h.Data))
	}
	if len(whole) == 0 {
		whole = paths(w.leaves)
	}
	if w.columns, err = p.resolve(w.leaves, whole); err != nil {
		return nil, err
	}
	w.state = make([][][]float64, p.slots)
	for i := range w.state {
		for _, x := range w.params {
			w.state[i] = append(w.state[i], make([]float64, len(x)))
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
	phase := w.plan.phase(w.counts)
	scalars := w.plan.evaluate(w.counts)
	w.update = uint32(w.counts[updatesCount])
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
	w.emit(u, scalars)
	return nil
}

// emit runs the chain over u and stores what it made, unless what is not finite is to be skipped.
func (w *Twin) emit(u [][]float64, scalars []float64) {
	next := make([][][]float64, len(w.state))
	for i := range next {
		next[i] = make([][]float64, len(w.leaves))
		for leaf := range w.leaves {
			next[i][leaf] = slices.Clone(w.state[i][leaf])
		}
	}
	for i, s := range w.plan.steps {
		w.measure(i, u)
		w.run(s, u, next, scalars)
	}
	w.measure(len(w.plan.steps), u)
	skip := w.plan.transform.skip && w.bad[0]
	if skip {
		w.skipped++
	}
	_, slots := w.plan.state()
	for i := range next {
		kept := i == 0 && w.plan.transform.accumulate > 1 // the accumulation is reset all the same
		for leaf := range w.leaves {
			if skip && !kept {
				continue
			}
			for k, v := range next[i][leaf] {
				if slots[i].dither {
					v = dithered(v, w.leaves[leaf].Path, w.update, i, k)
				}
				w.state[i][leaf][k] = store(v, slots[i].dtype)
			}
		}
	}
	for leaf, p := range w.params {
		for k := range p {
			if !skip {
				p[k] = store(p[k]+u[leaf][k], buffers.F32)
			}
		}
	}
}

// run applies one element to every number of every leaf.
func (w *Twin) run(s step, u [][]float64, state [][][]float64, scalars []float64) {
	c := cell{slots: make([]float64, len(s.slots)), scalars: scalars[s.firstScalar:], columns: make([]float64, len(s.columns))}
	if s.norm >= 0 {
		c.norm, c.bad = w.norms[s.norm], w.bad[s.norm]
	}
	for leaf := range w.leaves {
		for i := range c.columns {
			c.columns[i] = float64(w.columns[leaf*w.plan.columns+s.firstColumn+i])
		}
		for k := range u[leaf] {
			c.u, c.p = u[leaf][k], w.params[leaf][k]
			for i := range c.slots {
				c.slots[i] = state[s.firstSlot+i][leaf][k]
			}
			s.twin(&c)
			u[leaf][k] = c.u
			for i := range c.slots {
				state[s.firstSlot+i][leaf][k] = c.slots[i]
			}
		}
	}
}

// measure takes the norms that stand before a step.
func (w *Twin) measure(before int, u [][]float64) {
	for j, at := range w.plan.norms {
		if at != before {
			continue
		}
		sum, bad := 0.0, false
		for _, leaf := range u {
			for _, x := range leaf {
				sum += x * x
				bad = bad || math.IsNaN(x) || math.IsInf(x, 0)
			}
		}
		w.norms[j], w.bad[j] = math.Sqrt(sum), bad
	}
}

// Params gives the params as they are stored.
func (w *Twin) Params() []buffers.Host { return w.host(w.params) }

// State gives a tree of the state as it is stored; nil if there is none of that name.
func (w *Twin) State(name string) []buffers.Host {
	names, _ := w.plan.state()
	i := slices.Index(names, name)
	if i < 0 {
		return nil
	}
	return w.host(w.state[i])
}

// Statistics are those of the last update.
func (w *Twin) Statistics() Statistics {
	s := Statistics{Skipped: uint32(w.skipped)}
	if len(w.norms) > 0 {
		s.Norm, s.NonFinite = float32(w.norms[0]), w.bad[0]
	}
	return s
}

func (w *Twin) host(values [][]float64) []buffers.Host {
	out := make([]buffers.Host, len(w.leaves))
	for i, l := range w.leaves {
		data := make([]float32, len(values[i]))
		for k, v := range values[i] {
			data[k] = float32(v)
		}
		out[i] = buffers.Host{Path: l.Path, Shape: l.Shape, Data: data}
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

// store is what a tree of that dtype keeps of x.
func store(x float64, d buffers.DType) float64 {
	if d == buffers.BF16 {
		return roundBF16(x)
	}
	return float64(float32(x))
}

// roundBF16 rounds to the nearest bf16, ties to even.
func roundBF16(x float64) float64 { return float64(buffers.DecodeBF16(buffers.EncodeBF16(float32(x)))) }

func paths(leaves []buffers.Leaf) []string {
	out := make([]string, len(leaves))
	for i, l := range leaves {
		out[i] = l.Path
	}
	return out
}

// Counts are those of State.Counts.
func (w *Twin) Counts() map[string]int64 { return maps.Clone(w.counts) }
