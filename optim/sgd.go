package optim

func init() {
	builtin(Optimizer{
		Name: "sgd", Doc: "stochastic gradient descent, with optional momentum", Rate: 0.1,
		New:   func() Parameters { return new(sgd) },
		Small: `{"momentum":0.9}`,
	})
}

// sgd is u = -lr g, with optax's momentum; see Trace for the equations.
type sgd struct {
	Momentum    float64 `json:"momentum" range:"[0,1)" doc:"decay of the trace; 0 = no momentum and no state"`
	Nesterov    bool    `json:"nesterov" doc:"Nesterov's form of the momentum"`
	WeightDecay float64 `json:"weight_decay" range:"[0,inf)" doc:"decay added to the gradient before the momentum, as in torch, for the leaves of the options' mask"`
}

// Transform is chain(add_decayed_weights, trace, scale_by_learning_rate).
func (c *sgd) Transform(lr Schedule, o Options) (Transform, error) {
	if err := o.oneDecay(c.WeightDecay); err != nil {
		return Transform{}, err
	}
	var parts []Transform
	if c.WeightDecay > 0 {
		parts = append(parts, AddDecayedWeights(c.WeightDecay, o.WeightDecayMask))
	}
	if c.Momentum != 0 {
		parts = append(parts, Trace(c.Momentum, c.Nesterov))
	}
	t := Chain(append(parts, ScaleByLearningRate(lr, o.Rates...))...)
	return t, t.err
}
