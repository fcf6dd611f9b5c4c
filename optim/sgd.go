package optim

func init() {
	builtin(Optimizer{
		Name: "sgd", Doc: "stochastic gradient descent, with momentum where asked for", Rate: 0.1,
		New:   func() Parameters { return &SGDConfig{} },
		Small: `{"momentum":0.9}`,
	})
}

// SGDConfig are the parameters of SGD; see Trace for the equations.
type SGDConfig struct {
	Momentum    float64 `json:"momentum" doc:"decay of the trace; 0 = no momentum and no state"`
	Nesterov    bool    `json:"nesterov" doc:"Nesterov's form of the momentum"`
	WeightDecay float64 `json:"weight_decay" doc:"torch's decay, added to the gradient before the momentum, for the leaves of the options' mask"`
}

// SGD is u = -lr g, with optax's momentum, and with what Options adds around it.
func SGD(c SGDConfig, o Options) (Transform, error) { return build("sgd", &c, o) }

// Transform is chain(add_decayed_weights, trace, scale_by_learning_rate).
func (c *SGDConfig) Transform(lr Schedule, o Options) (Transform, error) {
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
