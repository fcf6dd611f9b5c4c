package optim

import "fmt"

func init() {
	builtin(Optimizer{
		Name: "adafactor", Doc: "Adafactor: second moments of matrices as one row and one column, updates limited and scaled leaf by leaf", Rate: 0.03,
		New:   func() Parameters { c := DefaultAdafactor(); return &c },
		Small: `{"min_dim_size_to_factor":4,"momentum":0.9}`, CountedFor: "large matrices",
	})
}

// AdafactorConfig are the parameters of Adafactor, in optax's names; see ScaleByFactoredRMS for the equations.
type AdafactorConfig struct {
	MinDimSizeToFactor       int      `json:"min_dim_size_to_factor" doc:"least second-largest side of a leaf whose second moment is factored"`
	DecayRate                float64  `json:"decay_rate" doc:"power by which the second moment's decay nears 1: 1 - n^-decay_rate at update n"`
	DecayOffset              int64    `json:"decay_offset" doc:"subtracted from n there; at most 0"`
	MultiplyByParameterScale bool     `json:"multiply_by_parameter_scale" doc:"multiply a leaf's update by its parameter's root mean square, at least 1e-3"`
	ClippingThreshold        *float64 `json:"clipping_threshold" doc:"largest root mean square of a leaf's update before the rate; null = no limit"`
	Momentum                 *float64 `json:"momentum" doc:"decay of a moving average of updates, rate included; null = none and no state"`
	DTypeMomentum            string   `json:"dtype_momentum" doc:"storage of the momentum: f32 or bf16"`
	WeightDecayRate          *float64 `json:"weight_decay_rate" doc:"optax's decay inside, which the rate does not multiply, for the leaves of the options' mask (eformer: all); null = none; use the options' own"`
	Eps                      float64  `json:"eps" doc:"added to squares of gradients"`
	Factored                 bool     `json:"factored" doc:"factor second moments at all"`
}

// DefaultAdafactor is what eformer's configuration and optax have.
func DefaultAdafactor() AdafactorConfig {
	threshold := 1.0
	return AdafactorConfig{
		MinDimSizeToFactor: 128, DecayRate: 0.8, MultiplyByParameterScale: true, ClippingThreshold: &threshold, DTypeMomentum: "f32",
		Eps: 1e-30, Factored: true,
	}
}

// Adafactor is the optimizer of optax.adafactor, with what Options adds around it.
func Adafactor(c AdafactorConfig, o Options) (Transform, error) { return build("adafactor", &c, o) }

// Transform is chain(scale_by_factored_rms, clip_by_leaf_rms, rate, scale_by_param_block_rms, ema, add_decayed_weights, scale(-1)),
// of which the rate is not negative, and those parts are there that the parameters ask for.
func (c *AdafactorConfig) Transform(lr Schedule, o Options) (Transform, error) {
	if c.MinDimSizeToFactor < 1 {
		return Transform{}, fmt.Errorf("min_dim_size_to_factor: found %d, wanted 1 or more", c.MinDimSizeToFactor)
	}
	parts := []Transform{ScaleByFactoredRMS(FactoredRMSOptions{
		MinDimSizeToFactor: c.MinDimSizeToFactor, DecayRate: c.DecayRate, DecayOffset: c.DecayOffset, Eps: c.Eps, Unfactored: !c.Factored,
	})}
	if c.ClippingThreshold != nil {
		if err := positive("clipping_threshold", *c.ClippingThreshold); err != nil {
			return Transform{}, err
		}
		parts = append(parts, ClipByLeafRMS(*c.ClippingThreshold))
	}
	parts = append(parts, Scale(-1), ScaleByLearningRate(lr, o.Rates...))
	if c.MultiplyByParameterScale {
		parts = append(parts, ScaleByParamBlockRMS(1e-3))
	}
	dtype, err := parseMoment("dtype_momentum", c.DTypeMomentum)
	if err != nil {
		return Transform{}, err
	}
	if c.Momentum != nil {
		if err := decayRate("momentum", *c.Momentum); err != nil {
			return Transform{}, err
		}
		parts = append(parts, renamed(EMA(EMAOptions{Decay: *c.Momentum, DType: dtype, Numerics: o.Numerics}), map[string]string{"mu": "ema"}))
	}
	if c.WeightDecayRate != nil {
		if err := notNegative("weight_decay_rate", *c.WeightDecayRate); err != nil {
			return Transform{}, err
		}
		if err := o.oneDecay(*c.WeightDecayRate); err != nil {
			return Transform{}, err
		}
		mask := o.WeightDecayMask
		if o.Numerics == EFormer {
			mask = nil // its builder passes none
		}
		parts = append(parts, AddDecayedWeights(*c.WeightDecayRate, mask))
	}
	t := Chain(append(parts, Scale(-1))...)
	return t, t.err
}
