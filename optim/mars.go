package optim

func init() {
	builtin(Optimizer{
		Name: "mars", Doc: "MARS: Adam on gradients corrected by their change since the last update", Rate: 0.002,
		New: func() Parameters { return new(Mars) },
	})
}

// Mars are the parameters of eformer's MARS, with its names and defaults except for the decay, which is the options';
// see ScaleByMars for the equations.
type Mars struct {
	Beta1       float64  `json:"beta1" default:"0.95" range:"[0,1)" doc:"decay of the first moment"`
	Beta2       float64  `json:"beta2" default:"0.99" range:"[0,1)" doc:"decay of the second moment"`
	Gamma       float64  `json:"gamma" default:"0.025" range:"[0,inf)" doc:"weight of the gradient's change, multiplied by beta1/(1-beta1)"`
	Epsilon     float64  `json:"epsilon" default:"1e-8" range:"[0,inf)" doc:"added to the root of the second moment"`
	MaxGradNorm *float64 `json:"max_grad_norm" default:"1" range:"[0,inf)" doc:"largest global norm of the corrected gradient; null or 0 = no clip"`
	StateDType  string   `json:"state_dtype" default:"f32" range:"f32|8bit|" doc:"storage of the last gradient and both moments: f32, or 8bit for leaves of 4,096 elements or more"`
	MuDType     string   `json:"mu_dtype" default:"f32" range:"f32|bf16|" doc:"storage of the first moment: f32 or bf16"`
}

// ScaleByMars is eformer's scale_by_mars:
//
//	c   =  u + gamma beta1/(1-beta1) (u - mog)          mog = 0 before the first update
//	mog <- u
//	c   <- c min(1, max_grad_norm/(N + 1e-6))     N the norm of c over all leaves, where max_grad_norm is neither null nor 0
//	u   <- scale_by_adam(c)
//
// mog, the gradient that came in last, is f32; with a StateDType of 8bit it is in eight bits, as the moments are. State: "mog", "mu", "nu".
func ScaleByMars(o Mars, n Numerics) Transform {
	const name = "scale_by_mars"
	if err := checkRanges(&o); err != nil {
		return failed(name, "%w", err)
	}
	_, rest, err := storages(o.MuDType, o.StateDType)
	if err != nil {
		return failed(name, "%w", err)
	}
	parts := []Transform{Elementwise(Element{
		Name: name, Slots: []Slot{{Name: "mog", DType: rest}}, FLOPs: 3,
		Scalars: []Scalar{Fixed("lead", o.Gamma*o.Beta1/(1-o.Beta1))},
		WGSL:    "let c = u + $lead * (u - $mog);\n$mog = u;\nu = c;",
		Twin: func(c *Cell) {
			last := c.Slots[0]
			c.Slots[0] = c.U
			c.U += c.Scalars[0] * (c.U - last)
		},
	})}
	if o.MaxGradNorm != nil && *o.MaxGradNorm > 0 {
		parts = append(parts, ClipStageLocal(*o.MaxGradNorm))
	}
	t := Chain(append(parts, ScaleByAdam(Adam{B1: o.Beta1, B2: o.Beta2, Eps: o.Epsilon, MuDType: o.MuDType, StateDType: o.StateDType}, n))...)
	t.name = name
	return t
}

// Transform is chain(scale_by_mars, scale_by_learning_rate).
func (c *Mars) Transform(lr Schedule, o Options) (Transform, error) {
	t := Chain(ScaleByMars(*c, o.Numerics), ScaleByLearningRate(lr, o.Rates...))
	return t, t.err
}
