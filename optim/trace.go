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
	e := element{
		name: "trace", slots: []slot{{name: "trace", dtype: buffers.F32}},
		scalars: []scalar{fixed("decay", decay)}, flops: 2,
		wgsl: "$trace = u + $decay * $trace;\nu = $trace;",
		twin: func(c *cell) {
			c.slots[0] = c.u + c.scalars[0]*c.slots[0]
			c.u = c.slots[0]
		},
	}
	if nesterov {
		e.flops = 4
		e.wgsl = "$trace = u + $decay * $trace;\nu = u + $decay * $trace;"
		e.twin = func(c *cell) {
			c.slots[0] = c.u + c.scalars[0]*c.slots[0]
			c.u += c.scalars[0] * c.slots[0]
		}
	}
	return single(e)
}
