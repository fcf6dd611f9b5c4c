package optim

func init() {
	builtin(Optimizer{
		Name: "adafactor", Doc: "Adafactor: second moments of matrices as one row and one column, updates limited and scaled leaf by leaf", Rate: 0.03,
		New:   func() Parameters { return new(adafactor) },
		Small: `{"min_dim_size_to_factor":4,"momentum":0.9}`, CountedFor: "large matrices",
	})
}

// adafactor are the parameters of optax.adafactor, with its names and defaults; see ScaleByFactoredRMS for the equations.
type adafactor struct {
	MinDimSizeToFactor       int      `json:"min_dim_size_to_factor" default:"128" range:"[1,inf)" doc:"a leaf's second moment is factored if its second-largest side is at least this"`
	DecayRate                float64  `json:"decay_rate" default:"0.8" doc:"power by which the second moment's decay nears 1: 1 - n^-decay_rate at update n"`
	DecayOffset              int64    `json:"decay_offset" doc:"subtracted from n in the decay; at most 0"`
	MultiplyByParameterScale bool     `json:"multiply_by_parameter_scale" default:"true" doc:"multiply a leaf's update by its parameter's root mean square, at least 1e-3"`
	ClippingThreshold        *float64 `json:"clipping_threshold" default:"1" range:"(0,inf)" doc:"largest root mean square of a leaf's update before the rate; null = no limit"`
	Momentum                 *float64 `json:"momentum" range:"[0,1)" doc:"decay of a moving average of updates, rate included; null = none and no state"`
	DTypeMomentum            string   `json:"dtype_momentum" default:"f32" range:"f32|bf16|" doc:"storage of the momentum: f32 or bf16"`
	WeightDecayRate          *float64 `json:"weight_decay_rate" range:"[0,inf)" doc:"decay inside of the optimizer, not multiplied by the rate, as in optax, for the leaves of the options' mask (eformer: all); null = none; prefer the options' weight_decay"`
	Eps                      float64  `json:"eps" default:"1e-30" doc:"added to squares of gradients"`
	Factored                 bool     `json:"factored" default:"true" doc:"whether second moments are factored at all"`
}

// Transform is chain(scale_by_factored_rms, clip_by_leaf_rms, rate, scale_by_param_block_rms, ema, add_decayed_weights, scale(-1)),
// of which the rate is not negative, and those parts are there that the parameters ask for.
func (c *adafactor) Transform(lr Schedule, o Options) (Transform, error) {
	parts := []Transform{ScaleByFactoredRMS(FactoredRMSOptions{
		MinDimSizeToFactor: c.MinDimSizeToFactor, DecayRate: c.DecayRate, DecayOffset: c.DecayOffset, Eps: c.Eps, Unfactored: !c.Factored,
	})}
	if c.ClippingThreshold != nil {
		parts = append(parts, ClipByLeafRMS(*c.ClippingThreshold))
	}
	parts = append(parts, Scale(-1), ScaleByLearningRate(lr, o.Rates...))
	if c.MultiplyByParameterScale {
		parts = append(parts, scaleByParamBlockRMS(1e-3))
	}
	if c.Momentum != nil {
		parts = append(parts, renamed(EMA(EMAOptions{Decay: *c.Momentum, DType: storage(c.DTypeMomentum), Numerics: o.Numerics}), map[string]string{"mu": "ema"}))
	}
	if c.WeightDecayRate != nil {
		if err := o.oneDecay(*c.WeightDecayRate); err != nil {
			return Transform{}, err
		}
		parts = append(parts, AddDecayedWeights(*c.WeightDecayRate, o.innerMask(nil)))
	}
	t := Chain(append(parts, Scale(-1))...)
	return t, t.err
}
