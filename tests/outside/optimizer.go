package main

import "gputrain/optim"

func init() {
	err := optim.Register(optim.Optimizer{
		Name: "centred", Doc: "momentum whose rows are centred", Rate: 0.05,
		New: func() optim.Parameters { return new(centred) },
	})
	if err != nil {
		panic(err)
	}
}

// centred is momentum, of which each row of a matrix is centred.
type centred struct {
	Beta float64 `json:"beta" default:"0.9" range:"[0,1)" doc:"decay of the momentum"`
}

// heavyBall is m <- beta m + u, u <- m.
func (c *centred) heavyBall() optim.Transform {
	return optim.Elementwise(optim.Element{
		Name: "heavy_ball", Slots: []optim.Slot{{Name: "m"}}, Scalars: []optim.Scalar{optim.Fixed("beta", c.Beta)}, FLOPs: 2,
		WGSL: "$m = $beta * $m + u;\nu = $m;",
		Twin: func(c *optim.Cell) {
			c.Slots[0] = c.Scalars[0]*c.Slots[0] + c.U
			c.U = c.Slots[0]
		},
	})
}

func (c *centred) Transform(lr optim.Schedule, o optim.Options) (optim.Transform, error) {
	return optim.Chain(c.heavyBall(), optim.Operate("centre", centre{}), optim.ScaleByLearningRate(lr, o.Rates...)), nil
}
