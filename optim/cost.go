package optim

import "gputrain/buffers"

// Cost is what an optimizer takes a parameter, with f32 params and gradients. Traffic is what an update reads and
// writes, measurements included.
type Cost struct {
	StateBytes   float64 `json:"state_bytes"`
	TrafficBytes float64 `json:"traffic_bytes"`
	FLOPs        float64 `json:"flops"`
}

// Cost tells what the transformation takes a parameter; nothing where its construction failed.
func (t Transform) Cost() Cost {
	p, err := newPlan(t)
	if err != nil {
		return Cost{}
	}
	const word = 4
	c := Cost{TrafficBytes: 3 * word} // gradient read, parameter read and written
	for _, s := range p.steps {
		c.FLOPs += float64(s.flops)
		for _, slot := range s.slots {
			c.StateBytes += float64(slot.dtype.Bits()) / 8
		}
	}
	c.TrafficBytes += 2 * c.StateBytes
	c.FLOPs++ // p + u
	for _, before := range p.norms {
		c.TrafficBytes += word
		c.FLOPs += 2
		for _, s := range p.steps[:before] {
			for _, slot := range s.slots {
				c.TrafficBytes += float64(slot.dtype.Bits()) / 8
			}
		}
	}
	return c
}

// Bytes is what a state for params of that layout takes on the device: State.Bytes without a device.
func (t Transform) Bytes(layout *buffers.Layout) (uint64, error) {
	p, err := newPlan(t)
	if err != nil {
		return 0, err
	}
	n := p.uniformBytes()
	_, slots := p.state()
	for _, s := range slots {
		n += layout.Bytes(s.dtype)
	}
	for _, elements := range layout.Slabs() {
		n += 4 * uint64(elements/buffers.BlockElements*p.stride()+len(layout.Leaves())*p.columns)
	}
	if len(p.norms) > 0 {
		n += uint64(len(p.norms))*StatisticsBytes + partialBytes(normGroups(layout))
	}
	return n, nil
}
