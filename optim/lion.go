package optim

import "gputrain/buffers"

func init() {
	builtin(Optimizer{
		Name: "lion", Doc: "Lion: the sign of an interpolated momentum, one moment an element", Rate: 0.0003,
		New: func() Parameters { c := DefaultLion(); return &c },
	})
}

// LionOptions are the parameters of ScaleByLion; the zero value of MuDType is optax's default.
type LionOptions struct {
	B1, B2   float64
	MuDType  buffers.DType
	Numerics Numerics
}

// ScaleByLion is optax.scale_by_lion:
//
//	c  =  (1-b1) u + b1 mu
//	mu <- (1-b2) u + b2 mu
//	u  <- sign(c)                 sign(0) = 0; mu from before this update
//
// A bf16 mu is rounded stochastically in Stable; in EFormer to nearest even, and so are b1, b2 and their products with it.
// State: "mu".
func ScaleByLion(o LionOptions) Transform {
	const name = "scale_by_lion"
	if err := firstError(decayRate("b1", o.B1), decayRate("b2", o.B2), momentDType("mu_dtype", o.MuDType)); err != nil {
		return failed(name, "%w", err)
	}
	look, keep := moment("mu", o.MuDType, "b1", o.B1, o.Numerics), moment("mu", o.MuDType, "b2", o.B2, o.Numerics)
	return single(element{
		name: name, slots: []slot{keep.slot}, flops: 8,
		scalars: []scalar{fixed("b1", look.keep), fixed("b1c", 1-o.B1), fixed("b2", keep.keep), fixed("b2c", 1-o.B2)},
		wgsl: "let c = $b1c * u + " + look.product + `;
$mu = $b2c * u + ` + keep.product + `;
u = select(select(c, vec4<f32>(-1.0), c < vec4<f32>(0.0)), vec4<f32>(1.0), c > vec4<f32>(0.0));`,
		twin: func(c *cell) {
			b1, b1c, b2, b2c := c.scalars[0], c.scalars[1], c.scalars[2], c.scalars[3]
			x := b1c*c.u + look.shrink(b1*c.slots[0])
			c.slots[0] = b2c*c.u + keep.shrink(b2*c.slots[0])
			switch {
			case x > 0:
				x = 1
			case x < 0:
				x = -1
			}
			c.u = x // 0 and NaN are their own signs
		},
	})
}

// LionConfig are the parameters of Lion; see ScaleByLion for the equations.
type LionConfig struct {
	B1      float64 `json:"b1" doc:"share of the moment in the sign's argument"`
	B2      float64 `json:"b2" doc:"decay of the moment"`
	MuDType string  `json:"mu_dtype" doc:"storage of the moment: f32 or bf16"`
}

// DefaultLion is what eformer's configuration has.
func DefaultLion() LionConfig { return LionConfig{B1: 0.9, B2: 0.99, MuDType: "f32"} }

// Lion is the optimizer of optax.lion, with what Options adds around it.
func Lion(c LionConfig, o Options) (Transform, error) { return build("lion", &c, o) }

// lionHiddenDecay is optax.lion's default, which eformer's builder leaves on for all leaves, whatever decay and mask it is given.
const lionHiddenDecay = 1e-3

// Transform is chain(scale_by_lion, scale_by_learning_rate), with lionHiddenDecay before the rate in EFormer numerics only.
func (c *LionConfig) Transform(lr Schedule, o Options) (Transform, error) {
	dtype, err := parseMoment("mu_dtype", c.MuDType)
	if err != nil {
		return Transform{}, err
	}
	parts := []Transform{ScaleByLion(LionOptions{B1: c.B1, B2: c.B2, MuDType: dtype, Numerics: o.Numerics})}
	if o.Numerics == EFormer {
		parts = append(parts, AddDecayedWeights(lionHiddenDecay, nil))
	}
	t := Chain(append(parts, ScaleByLearningRate(lr, o.Rates...))...)
	return t, t.err
}
