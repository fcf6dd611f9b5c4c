package optim

// AddDecayedWeights adds decay to updates, before the rate multiplies them:
//
//	u <- u + decay p       for the leaves of the mask
func AddDecayedWeights(decay float64, mask *Mask) Transform {
	e := element{
		name: "add_decayed_weights", scalars: []scalar{fixed("decay", decay)}, flops: 2,
		wgsl: "u = u + $decay * $p;",
		twin: func(c *cell) { c.u += c.scalars[0] * c.p },
	}
	if mask != nil {
		e.columns = []column{maskColumn(mask)}
		e.wgsl = "if ($mask != 0.0) { u = u + $decay * $p; }"
		e.twin = func(c *cell) {
			if c.columns[0] != 0 {
				c.u += c.scalars[0] * c.p
			}
		}
	}
	return single(e)
}

// AddScheduledDecay is eformer's decay outside of the optimizer, with p from before the update and a count of
// its own:
//
//	u <- u - lr(t) decay m p     for the leaves of the mask; m: the leaf's multiplier, 1 without rates
func AddScheduledDecay(lr Schedule, decay float64, mask *Mask, rates ...PathRate) Transform {
	e := element{
		name: "add_scheduled_decay", flops: 2,
		scalars: []scalar{rated("decay", lr, decay)},
	}
	factor, column := "$decay", 0
	multiplier := func(*cell) float64 { return 1 }
	if len(rates) > 0 {
		e.columns = append(e.columns, rateColumn(rates))
		factor, column = "($decay * $rate)", 1
		multiplier = func(c *cell) float64 { return c.columns[0] }
	}
	e.wgsl = "u = u - " + factor + " * $p;"
	e.twin = func(c *cell) { c.u -= c.scalars[0] * multiplier(c) * c.p }
	if mask != nil {
		e.columns = append(e.columns, maskColumn(mask))
		e.wgsl = "if ($mask != 0.0) { " + e.wgsl + " }"
		all := e.twin
		e.twin = func(c *cell) {
			if c.columns[column] != 0 {
				all(c)
			}
		}
	}
	return single(e)
}
