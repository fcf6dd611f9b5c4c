package optim

import "gputrain/buffers"

// Trace is momentum, as optax.trace has it:
//
//	trace <- u + decay trace
//	u     <- trace                 (nesterov: u + decay trace)
//
// State: "trace".
func Trace(decay float64, nesterov bool) Transform {
	if err := inInterval("decay", decay, "[0,1)"); err != nil {
		return failed("trace", "%w", err)
	}
	e := Element{
		Name: "trace", Slots: []Slot{{Name: "trace", DType: buffers.F32}},
		Scalars: []Scalar{Fixed("decay", decay)}, FLOPs: 2,
		WGSL: "$trace = u + $decay * $trace;\nu = $trace;",
		Twin: func(c *Cell) {
			c.Slots[0] = c.U + c.Scalars[0]*c.Slots[0]
			c.U = c.Slots[0]
		},
	}
	if nesterov {
		e.FLOPs = 4
		e.WGSL = "$trace = u + $decay * $trace;\nu = u + $decay * $trace;"
		e.Twin = func(c *Cell) {
			c.Slots[0] = c.U + c.Scalars[0]*c.Slots[0]
			c.U += c.Scalars[0] * c.Slots[0]
		}
	}
	return Elementwise(e)
}
