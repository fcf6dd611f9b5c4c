package optim

// ScaleByLearningRate multiplies updates by minus the rate of this update:
//
//	u <- -lr(t) m u        m: the leaf's multiplier, 1 without rates
func ScaleByLearningRate(lr Schedule, rates ...PathRate) Transform {
	e := Element{
		Name: "scale_by_learning_rate", Scalars: []Scalar{rated(rateScalar, lr, 1)}, FLOPs: 1,
		WGSL: "u = -$lr * u;",
		Twin: func(c *Cell) { c.U *= -c.Scalars[0] },
	}
	if len(rates) > 0 {
		e.columns = []column{rateColumn(rates)}
		e.WGSL = "u = -($lr * $rate) * u;"
		e.Twin = func(c *Cell) { c.U *= -c.Scalars[0] * c.columns[0] }
	}
	return Elementwise(e)
}

// rateScalar is the name under which State finds the rate of an update.
const rateScalar = "lr"
