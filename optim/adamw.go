package optim

func init() {
	builtin(Optimizer{
		Name: "adamw", Doc: "Adam with decoupled weight decay: per-element first and second moments", Rate: 0.0015,
		New: func() Parameters { c := DefaultAdamW(); return &c },
	})
}

// AdamWConfig are the parameters of AdamW; see ScaleByAdam for the equations.
type AdamWConfig struct {
	B1          float64 `json:"b1" doc:"decay of the first moment"`
	B2          float64 `json:"b2" doc:"decay of the second moment"`
	Eps         float64 `json:"eps" doc:"added to the root of the second moment"`
	EpsRoot     float64 `json:"eps_root" doc:"added under the root"`
	MuDType     string  `json:"mu_dtype" doc:"storage of the first moment: f32 or bf16"`
	Nesterov    bool    `json:"nesterov" doc:"Nesterov's form of the first moment"`
	WeightDecay float64 `json:"weight_decay" doc:"optax's decay inside, before the rate, for the leaves of the options' mask; use the options' own"`
}

// DefaultAdamW is what eformer's builder has: optax's defaults, no decay inside.
func DefaultAdamW() AdamWConfig { return AdamWConfig{B1: 0.9, B2: 0.999, Eps: 1e-8, MuDType: "f32"} }

// AdamW is the optimizer of optax.adamw, with what Options adds around it.
func AdamW(c AdamWConfig, o Options) (Transform, error) { return build("adamw", &c, o) }

// Transform is chain(scale_by_adam, add_decayed_weights, scale_by_learning_rate).
func (c *AdamWConfig) Transform(lr Schedule, o Options) (Transform, error) {
	dtype, err := parseMoment("mu_dtype", c.MuDType)
	if err != nil {
		return Transform{}, err
	}
	if err := o.oneDecay(c.WeightDecay); err != nil {
		return Transform{}, err
	}
	parts := []Transform{ScaleByAdam(AdamOptions{
		B1: c.B1, B2: c.B2, Eps: c.Eps, EpsRoot: c.EpsRoot, MuDType: dtype, Nesterov: c.Nesterov, Numerics: o.Numerics,
	})}
	if c.WeightDecay > 0 {
		parts = append(parts, AddDecayedWeights(c.WeightDecay, o.WeightDecayMask))
	}
	t := Chain(append(parts, ScaleByLearningRate(lr, o.Rates...))...)
	return t, t.err
}
