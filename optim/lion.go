package optim

func init() {
	builtin(Optimizer{
		Name: "lion", Doc: "Lion: the sign of an interpolated momentum, one moment an element", Rate: 0.0003,
		New: func() Parameters { return new(Lion) },
	})
}

// Lion are the parameters of optax.lion, with the defaults of eformer's configuration; see ScaleByLion for the equations.
type Lion struct {
	B1         float64 `json:"b1" default:"0.9" range:"[0,1)" doc:"weight of the moment in the sign's argument"`
	B2         float64 `json:"b2" default:"0.99" range:"[0,1)" doc:"decay of the moment"`
	StateDType string  `json:"state_dtype" default:"f32" range:"f32|8bit|" doc:"storage of the moment: f32, or 8bit for leaves of 4,096 elements or more"`
	MuDType    string  `json:"mu_dtype" default:"f32" range:"f32|bf16|" doc:"storage of the moment: f32 or bf16"`
}

// ScaleByLion is optax.scale_by_lion:
//
//	c  =  (1-b1) u + b1 mu
//	mu <- (1-b2) u + b2 mu
//	u  <- sign(c)                 sign(0) = 0; mu from before this update
//
// A bf16 mu is rounded stochastically in Stable; in EFormer to nearest even, and so are b1, b2 and their products with it.
// With a StateDType of 8bit it is in eight bits, rounded to nearest (levels.go). State: "mu".
func ScaleByLion(o Lion, n Numerics) Transform {
	const name = "scale_by_lion"
	if err := checkRanges(&o); err != nil {
		return failed(name, "%w", err)
	}
	mu, _, err := storages(o.MuDType, o.StateDType)
	if err != nil {
		return failed(name, "%w", err)
	}
	look, keep := moment(mu, "b1", o.B1, n), moment(mu, "b2", o.B2, n)
	return Elementwise(Element{
		Name: name, Slots: []Slot{keep.slot}, FLOPs: 8,
		Scalars: []Scalar{Fixed("b1", look.keep), Fixed("b1c", 1-o.B1), Fixed("b2", keep.keep), Fixed("b2c", 1-o.B2)},
		WGSL: "let c = $b1c * u + " + look.product + `;
$mu = $b2c * u + ` + keep.product + `;
u = select(select(c, vec4<f32>(-1.0), c < vec4<f32>(0.0)), vec4<f32>(1.0), c > vec4<f32>(0.0));`,
		Twin: func(c *Cell) {
			b1, b1c, b2, b2c := c.Scalars[0], c.Scalars[1], c.Scalars[2], c.Scalars[3]
			x := b1c*c.U + look.shrink(b1*c.Slots[0])
			c.Slots[0] = b2c*c.U + keep.shrink(b2*c.Slots[0])
			switch {
			case x > 0:
				x = 1
			case x < 0:
				x = -1
			}
			c.U = x // 0 and NaN are their own signs
		},
	})
}

// Transform is chain(scale_by_lion, scale_by_learning_rate), with a decay before the rate where the numerics have one (rules.lionDecay).
func (c *Lion) Transform(lr Schedule, o Options) (Transform, error) {
	parts := []Transform{ScaleByLion(*c, o.Numerics)}
	if decay := o.rules().lionDecay; decay > 0 {
		parts = append(parts, AddDecayedWeights(decay, nil))
	}
	t := Chain(append(parts, ScaleByLearningRate(lr, o.Rates...))...)
	return t, t.err
}
