package optim

func init() {
	builtin(Optimizer{
		Name: "adamw", Doc: "Adam with decoupled weight decay: per-element first and second moments", Rate: 0.0015,
		New: func() Parameters { return new(adamW) },
	})
}

// adamW are the parameters of optax.adamw, with its defaults except for the decay inside; see ScaleByAdam for the
// equations.
type adamW struct {
	Adam
	WeightDecay float64 `json:"weight_decay" range:"[0,inf)" doc:"decay inside of the optimizer, before the rate, as in optax, for the leaves of the options' mask; prefer the options' weight_decay"`
}

// Transform is chain(scale_by_adam, add_decayed_weights, scale_by_learning_rate).
func (c *adamW) Transform(lr Schedule, o Options) (Transform, error) {
	if err := o.oneDecay(c.WeightDecay); err != nil {
		return Transform{}, err
	}
	parts := []Transform{ScaleByAdam(c.Adam, o.Numerics)}
	if c.WeightDecay > 0 {
		parts = append(parts, AddDecayedWeights(c.WeightDecay, o.WeightDecayMask))
	}
	t := Chain(append(parts, ScaleByLearningRate(lr, o.Rates...))...)
	return t, t.err
}
