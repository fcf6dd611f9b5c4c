package optim

// ScaleByLearningRate multiplies updates by minus the rate of this update:
//
//	u <- -lr(t) m u        m: the leaf's multiplier, 1 without rates
func ScaleByLearningRate(lr Schedule, rates ...PathRate) Transform {
	e := element{
		name: "scale_by_learning_rate", scalars: []scalar{rated(rateScalar, lr, 1)}, flops: 1,
		wgsl: "u = -$lr * u;",
		twin: func(c *cell) { c.u *= -c.scalars[0] },
	}
	if len(rates) > 0 {
		e.columns = []column{rateColumn(rates)}
		e.wgsl = "u = -($lr * $rate) * u;"
		e.twin = func(c *cell) { c.u *= -c.scalars[0] * c.columns[0] }
	}
	return single(e)
}

// rateScalar is the name under which State finds the rate of an update.
const rateScalar = "lr"
