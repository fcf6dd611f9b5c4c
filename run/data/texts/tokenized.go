package optim

import (
	"math"

	"gputrain/buffers"
)

// EMAOptions are the parameters of EMA.
type EMAOptions struct {
	Decay    float64
	Debias   bool // divide by the sum of the weights so far
	DType    buffers.DType
	Numerics Numerics
}

// EMA is optax.ema, the running mean of updates. With n = t+1 the number of this update, counted from 1:
//
//	mu <- (1-decay) u + decay mu
//	u  <- mu / (1-decayⁿ)           with Debias, else mu
//
// mu is rounded to DType only after its use: stochastically in Stable, in EFormer to nearest even, where decay and the product
// decay mu are rounded to bf16 as well. State: "mu".
func EMA(o EMAOptions) Transform {
	const name = "ema"
	if err := firstError(inInterval("decay", o.Decay, "[0,1)"), momentDType("dtype", o.DType)); err != nil {
		return failed(name, "%w", err)
	}
	mu := moment(o.DType, "decay", o.Decay, o.Numerics)
	correction := func(t int64) float64 {
		if !o.Debias {
			return 1
		}
		return 1 - math.Pow(o.Decay, float64(t+1))
	}
	return Elementwise(Element{
		Name: name, Slots: []Slot{mu.slot}, FLOPs: 4,
		Scalars: []Scalar{Fixed("decay", mu.keep), Fixed("decayc", 1-o.Decay), {Name: "correction", At: correction}},
		WGSL:    "$mu = $decayc * u + " + mu.product + ";\nu = $mu / $correction;",
		Twin: func(c *Cell) {
			c.Slots[0] = c.Scalars[1]*c.U + mu.shrink(c.Scalars[0]*c.Slots[0])
			c.U = c.Slots[0] / c.Scalars[2]
		},
	})
}
