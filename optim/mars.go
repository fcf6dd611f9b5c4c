package optim

import (
	"gputrain/buffers"
)

func init() {
	builtin(Optimizer{
		Name: "mars", Doc: "MARS: Adam on gradients corrected by their change since the last update", Rate: 0.002,
		New: func() Parameters { c := DefaultMars(); return &c },
	})
}

// MarsOptions are the parameters of ScaleByMars. A MaxGradNorm of 0 is no clip.
type MarsOptions struct {
	B1, B2, Gamma, Eps, EpsRoot, MaxGradNorm float64
	MuDType                                  buffers.DType
	Numerics                                 Numerics
}

// ScaleByMars is eformer's scale_by_mars:
//
//	c   =  u + gamma b1/(1-b1) (u - mog)          mog = 0 before the first update
//	mog <- u
//	c   <- c min(1, max_grad_norm/(N + 1e-6))     N the norm of c over all leaves, where max_grad_norm is not 0
//	u   <- scale_by_adam(c)
//
// mog, the gradient that came in last, is always f32. State: "mog", "mu", "nu".
func ScaleByMars(o MarsOptions) Transform {
	const name = "scale_by_mars"
	if err := firstError(decayRate("b1", o.B1), notNegative("gamma", o.Gamma), notNegative("max_grad_norm", o.MaxGradNorm)); err != nil {
		return failed(name, "%w", err)
	}
	parts := []Transform{single(element{
		name: name, slots: []slot{{name: "mog", dtype: buffers.F32}}, flops: 3,
		scalars: []scalar{fixed("lead", o.Gamma*o.B1/(1-o.B1))},
		wgsl:    "let c = u + $lead * (u - $mog);\n$mog = u;\nu = c;",
		twin: func(c *cell) {
			last := c.slots[0]
			c.slots[0] = c.u
			c.u += c.scalars[0] * (c.u - last)
		},
	})}
	if o.MaxGradNorm > 0 {
		parts = append(parts, ClipStageLocal(o.MaxGradNorm))
	}
	t := Chain(append(parts, ScaleByAdam(AdamOptions{
		B1: o.B1, B2: o.B2, Eps: o.Eps, EpsRoot: o.EpsRoot, MuDType: o.MuDType, Numerics: o.Numerics,
	}))...)
	t.name = name
	return t
}

// MarsConfig are the parameters of MARS, in eformer's names but for the decay, which is the options'; see ScaleByMars for the
// equations.
type MarsConfig struct {
	Beta1       float64  `json:"beta1" doc:"decay of the first moment"`
	Beta2       float64  `json:"beta2" doc:"decay of the second moment"`
	Gamma       float64  `json:"gamma" doc:"weight of the gradient's change, which beta1/(1-beta1) multiplies"`
	Epsilon     float64  `json:"epsilon" doc:"added to the root of the second moment"`
	MaxGradNorm *float64 `json:"max_grad_norm" doc:"largest global norm of the corrected gradient; null or 0 = no clip"`
	MuDType     string   `json:"mu_dtype" doc:"storage of the first moment: f32 or bf16"`
}

// DefaultMars is what eformer's configuration has.
func DefaultMars() MarsConfig {
	one := 1.0
	return MarsConfig{Beta1: 0.95, Beta2: 0.99, Gamma: 0.025, Epsilon: 1e-8, MaxGradNorm: &one, MuDType: "f32"}
}

// Mars is eformer's MARS, with what Options adds around it.
func Mars(c MarsConfig, o Options) (Transform, error) { return build("mars", &c, o) }

// Transform is chain(scale_by_mars, scale_by_learning_rate).
func (c *MarsConfig) Transform(lr Schedule, o Options) (Transform, error) {
	dtype, err := parseMoment("mu_dtype", c.MuDType)
	if err != nil {
		return Transform{}, err
	}
	if err := firstError(decayRate("beta1", c.Beta1), decayRate("beta2", c.Beta2), notNegative("epsilon", c.Epsilon)); err != nil {
		return Transform{}, err
	}
	most := 0.0
	if c.MaxGradNorm != nil {
		most = *c.MaxGradNorm
	}
	t := Chain(ScaleByMars(MarsOptions{
		B1: c.Beta1, B2: c.Beta2, Gamma: c.Gamma, Eps: c.Epsilon, MaxGradNorm: most, MuDType: dtype, Numerics: o.Numerics,
	}), ScaleByLearningRate(lr, o.Rates...))
	return t, t.err
}
