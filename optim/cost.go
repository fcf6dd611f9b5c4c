package optim

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// Cost is what an optimizer takes a parameter, with f32 params and gradients. Traffic is what an update reads and
// writes, measurements included.
type Cost struct {
	StateBytes   float64 `json:"state_bytes"`
	TrafficBytes float64 `json:"traffic_bytes"`
	FLOPs        float64 `json:"flops"`
}

// Work is what an update does to so many elements.
func (c Cost) Work(elements int) gpu.Work {
	return gpu.Work{FLOPs: c.FLOPs, Bytes: c.TrafficBytes}.Times(float64(elements))
}

// Cost is the cost of the transformation for each parameter, on a route for each parameter of its mask; zero if
// construction failed.
func (t Transform) Cost() Cost {
	p, err := newPlan(t)
	if err != nil {
		return Cost{}
	}
	const word = 4
	c := Cost{TrafficBytes: 3 * word} // gradient read, parameter read and written
	for _, s := range p.steps {
		if s.offRoute() {
			continue
		}
		c.FLOPs += float64(s.FLOPs)
		for _, slot := range s.Slots {
			if slot.DType == buffers.U8 {
				c.FLOPs += codeFLOPs
			}
		}
		if s.restores { // the move: params are read and written, and the mean is read
			c.TrafficBytes += 3 * word
			c.FLOPs += 2
		}
		c.StateBytes += s.slotBytes()
		c.TrafficBytes += 2 * s.slotBytes()
		if s.operator != nil {
			o := s.operator.Cost()
			c.StateBytes += o.StateBytes
			c.TrafficBytes += o.TrafficBytes + 2*word // the update is stored before it and loaded after it
			c.FLOPs += o.FLOPs
		}
	}
	c.FLOPs++ // p + u
	if p.rows >= 0 {
		c.TrafficBytes += 2 * word // the update and the parameter
		c.FLOPs += 6
		for _, s := range p.within(p.segments[p.segmentOf(p.rows)], p.rows) {
			if !s.offRoute() {
				c.TrafficBytes += s.slotBytes()
			}
		}
	}
	for _, m := range p.measured {
		c.TrafficBytes += word
		c.FLOPs += 2
		before := m.before
		if m.params { // is read alone
			before = p.segments[p.segmentOf(before)].first
		}
		for _, s := range p.within(p.segments[p.segmentOf(before)], before) {
			if !s.offRoute() {
				c.TrafficBytes += s.slotBytes()
			}
		}
	}
	return c
}

// Work tells what an update takes of each leaf of a model, by path: the multiply-adds of operators, with a refresh where there is one, and one for
// each element. So leaves compare by matrices where an optimizer multiplies some, and by bytes elsewhere.
func (t Transform) Work(model []buffers.Spec) (map[string]float64, error) {
	out := map[string]float64{}
	for _, s := range t.Trained(t.model(model)) {
		out[s.Path] = float64(buffers.Leaf{Shape: s.Shape}.Elements())
	}
	err := t.scenes(model, func(o Operator, on Scene) error {
		works, ok := o.(interface {
			Work(s Scene) ([]float64, error)
		})
		if !ok {
			return nil
		}
		work, err := works.Work(on)
		for i, n := range work {
			if n > 0 {
				out[on.Leaves[i].Path] += n
			}
		}
		return err
	})
	return out, err
}

// slotBytes are the bytes that the element keeps for each parameter.
func (e Element) slotBytes() float64 {
	n := 0.0
	for _, slot := range e.Slots {
		n += float64(slot.DType.Bits()) / 8
		if slot.DType == buffers.U8 {
			n += 4. / codeBlock
		}
	}
	return n
}

// offRoute tells whether the element is for the leaves outside of a route's mask.
func (e Element) offRoute() bool {
	return slices.ContainsFunc(e.routes, func(m membership) bool { return !m.inside })
}

// Bytes is the memory of a state for params of that layout on a device with these limits: State.Bytes, planned without
// a device.
func (t Transform) Bytes(layout *buffers.Layout, limits gpu.Limits) (uint64, error) {
	return t.StageBytes(layout, specs(layout.Leaves()), limits)
}

// StageBytes is Bytes of a state of InitStage.
func (t Transform) StageBytes(layout *buffers.Layout, whole []buffers.Spec, limits gpu.Limits) (uint64, error) {
	return t.StagesBytes(whole, limits)(layout)
}

// StagesBytes is StageBytes of many stages of one model, whose leaves are gone through once.
func (t Transform) StagesBytes(leaves []buffers.Spec, limits gpu.Limits) func(layout *buffers.Layout) (uint64, error) {
	whole := t.whole(leaves)
	return func(layout *buffers.Layout) (uint64, error) {
		params, err := buffers.NewTree(gpu.Dry(limits), "params", layout, buffers.F32)
		if err != nil {
			return 0, fmt.Errorf("optim: %s: %w", t.name, err)
		}
		defer params.Release()
		s, err := t.initStage(params, whole)
		if err != nil {
			return 0, err
		}
		defer s.Release()
		return s.Bytes(), nil
	}
}
