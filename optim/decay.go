package optim

// AddDecayedWeights adds decay to updates, before the rate multiplies them:
//
//	u <- u + decay p       for the leaves of the mask
func AddDecayedWeights(decay float64, mask *Mask) Transform {
	e := Element{
		Name: "add_decayed_weights", Scalars: []Scalar{Fixed("decay", decay)}, FLOPs: 2,
		WGSL: "u = u + $decay * $p;",
		Twin: func(c *Cell) { c.U += c.Scalars[0] * c.P },
	}
	if mask != nil {
		e.columns = []column{maskColumn(mask)}
		e.WGSL = "if ($mask != 0.0) { u = u + $decay * $p; }"
		e.Twin = func(c *Cell) {
			if c.columns[0] != 0 {
				c.U += c.Scalars[0] * c.P
			}
		}
	}
	return Elementwise(e)
}

// AddScheduledDecay is eformer's decay outside of the optimizer, with p from before the update and a count of
// its own:
//
//	u <- u - lr(t) decay m p     for the leaves of the mask; m: the leaf's multiplier, 1 without rates
func AddScheduledDecay(lr Schedule, decay float64, mask *Mask, rates ...PathRate) Transform {
	e := Element{
		Name: "add_scheduled_decay", FLOPs: 2,
		Scalars: []Scalar{rated("decay", lr, decay)},
	}
	factor, column := "$decay", 0
	multiplier := func(*Cell) float64 { return 1 }
	if len(rates) > 0 {
		e.columns = append(e.columns, rateColumn(rates))
		factor, column = "($decay * $rate)", 1
		multiplier = func(c *Cell) float64 { return c.columns[0] }
	}
	e.WGSL = "u = u - " + factor + " * $p;"
	e.Twin = func(c *Cell) { c.U -= c.Scalars[0] * multiplier(c) * c.P }
	if mask != nil {
		e.columns = append(e.columns, maskColumn(mask))
		e.WGSL = "if ($mask != 0.0) { " + e.WGSL + " }"
		all := e.Twin
		e.Twin = func(c *Cell) {
			if c.columns[column] != 0 {
				all(c)
			}
		}
	}
	return Elementwise(e)
}
