package optim

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"gputrain/buffers"
)

func init() {
	builtin(Optimizer{
		Name: "muon", Doc: "Muon: orthogonalised momentum for matrices, AdamW for the rest; its floating-point operations are those of matrices of side 768", Rate: 0.01,
		New: func() Parameters { c := DefaultMuon(); return &c },
		// Five products of matrices whose singular values are near one, and what four calls of them add up to.
		Tolerance: 1e-4, CountedFor: "matrices of side 768",
	})
}

// MuonConfig are the parameters of Muon, in optax's names; see ScaleByMuon for the equations.
type MuonConfig struct {
	NSCoeffs        [3]float64 `json:"ns_coeffs" doc:"coefficients of the Newton-Schulz step: a X + (b A + c A²) X with A = X Xᵀ"`
	NSSteps         int        `json:"ns_steps" doc:"Newton-Schulz steps"`
	Beta            float64    `json:"beta" doc:"decay of the momentum"`
	Eps             float64    `json:"eps" doc:"added to the norm of the momentum, and to the root of AdamW's second moment"`
	WeightDecay     float64    `json:"weight_decay" doc:"optax's decay inside of matrices, before the rate; use the options' own"`
	WeightDecayMask *Mask      `json:"weight_decay_mask" doc:"leaves of that decay; null = all in eformer, those of the options' mask in stable"`
	MuDType         string     `json:"mu_dtype" doc:"storage of the momentum and AdamW's first moment: f32 or bf16"`
	Nesterov        bool       `json:"nesterov" doc:"Nesterov's form of both"`
	Adaptive        bool       `json:"adaptive" doc:"multiply by the product of momentum and its orthogonal form"`
	ConsistentRMS   float64    `json:"consistent_rms" doc:"scale by this times the root of the larger side, 0.2 for AdamW's rates, instead of by the shape; 0 = off"`
	AdamB1          float64    `json:"adam_b1" doc:"decay of AdamW's first moment"`
	AdamB2          float64    `json:"adam_b2" doc:"decay of AdamW's second moment"`
	AdamEpsRoot     float64    `json:"adam_eps_root" doc:"added under AdamW's root"`
	AdamWeightDecay float64    `json:"adam_weight_decay" doc:"decay inside of AdamW's leaves, in stable only; use the options' own"`
	AdamW           []string   `json:"adamw" doc:"patterns of paths that are AdamW's whatever their shape; null = embeddings and output head in stable, none in eformer"`
}

// DefaultMuon is what eformer's configuration and optax have.
func DefaultMuon() MuonConfig {
	return MuonConfig{
		NSCoeffs: [3]float64{3.4445, -4.775, 2.0315}, NSSteps: 5, Beta: 0.95, Eps: 1e-8, MuDType: "f32", Nesterov: true,
		AdamB1: 0.9, AdamB2: 0.999,
	}
}

// Muon is optax.contrib.muon, with what Options adds around it.
func Muon(c MuonConfig, o Options) (Transform, error) { return build("muon", &c, o) }

// embeddingsAndHead are the matrices of this program's models, and of those with Hugging Face's names, that are looked up by token or
// position or give the logits. Their rows see few tokens each, for which an orthogonal update is too much.
const embeddingsAndHead = `(^|\.)(wte|wpe|embed_tokens|lm_head)\.`

// Transform is chain(route(scale_by_muon, scale_by_adam), decays inside, scale_by_learning_rate): leaves of two dimensions go to Muon, but
// for those of the patterns.
func (c *MuonConfig) Transform(lr Schedule, o Options) (Transform, error) {
	dtype, err := c.validate(o)
	if err != nil {
		return Transform{}, err
	}
	rule, err := c.rule(o.Numerics)
	if err != nil {
		return Transform{}, err
	}
	adam := renamed(ScaleByAdam(AdamOptions{
		B1: c.AdamB1, B2: c.AdamB2, Eps: c.Eps, EpsRoot: c.AdamEpsRoot, MuDType: dtype, Nesterov: c.Nesterov, Numerics: o.Numerics,
	}), map[string]string{"mu": "adam_mu", "nu": "adam_nu"})
	muon := ScaleByMuon(MuonOptions{
		Coefficients: c.NSCoeffs, Steps: c.NSSteps, Beta: c.Beta, Eps: c.Eps, MuDType: dtype, Nesterov: c.Nesterov, Adaptive: c.Adaptive,
		ConsistentRMS: c.ConsistentRMS, Numerics: o.Numerics,
	})
	if c.WeightDecay > 0 {
		mask := c.WeightDecayMask
		if mask == nil && o.Numerics != EFormer {
			mask = o.WeightDecayMask
		}
		muon = Chain(muon, AddDecayedWeights(c.WeightDecay, mask))
	}
	if c.AdamWeightDecay > 0 {
		adam = Chain(adam, AddDecayedWeights(c.AdamWeightDecay, o.WeightDecayMask))
	}
	t := Chain(rule, Route(&Mask{choose: c.chooses(o.Numerics)}, muon, adam), ScaleByLearningRate(lr, o.Rates...))
	return t, t.err
}

func (c *MuonConfig) validate(o Options) (buffers.DType, error) {
	dtype, err := parseMoment("mu_dtype", c.MuDType)
	if c.AdamWeightDecay != 0 && o.Numerics == EFormer {
		err = errors.Join(err, fmt.Errorf("adam_weight_decay: found %g, wanted 0: eformer's numerics do not use it", c.AdamWeightDecay))
	}
	return dtype, firstError(err, decayRate("adam_b1", c.AdamB1), decayRate("adam_b2", c.AdamB2), notNegative("adam_eps_root", c.AdamEpsRoot),
		notNegative("adam_weight_decay", c.AdamWeightDecay), notNegative("weight_decay", c.WeightDecay), o.oneDecay(max(c.WeightDecay, c.AdamWeightDecay)))
}

// patterns are those of AdamW's leaves.
func (c *MuonConfig) patterns(n Numerics) []string {
	if c.AdamW == nil && n != EFormer {
		return []string{embeddingsAndHead}
	}
	return c.AdamW
}

// chooses is the rule by which leaves go to Muon; the patterns are known to be regular expressions.
func (c *MuonConfig) chooses(n Numerics) func(buffers.Leaf) bool {
	var expressions []*regexp.Regexp
	for _, p := range c.patterns(n) {
		expressions = append(expressions, regexp.MustCompile(p))
	}
	return func(l buffers.Leaf) bool {
		return len(l.Shape) == 2 && !slices.ContainsFunc(expressions, func(e *regexp.Regexp) bool { return e.MatchString(l.Path) })
	}
}

// rule does nothing to updates: it refuses patterns given that match no path of the model. The defaults may match none.
func (c *MuonConfig) rule(n Numerics) (Transform, error) {
	for _, p := range c.patterns(n) {
		if _, err := regexp.Compile(p); err != nil {
			return Transform{}, fmt.Errorf("adamw: pattern %q: %w", p, err)
		}
	}
	return single(element{
		name: "adamw", keeps: true, twin: func(*cell) {},
		columns: []column{{"adamw", func(leaves []buffers.Leaf, whole []string) ([]float32, error) {
			for _, p := range c.AdamW {
				if _, err := pathPattern(p, whole); err != nil {
					return nil, err
				}
			}
			return make([]float32, len(leaves)), nil
		}}},
	}), nil
}
