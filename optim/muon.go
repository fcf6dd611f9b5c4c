package optim

import (
	"fmt"
	"regexp"
	"slices"

	"gputrain/buffers"
	"gputrain/internal/embeddings"
)

func init() {
	builtin(Optimizer{
		Name: "muon", Doc: "Muon: orthogonalised momentum for matrices, AdamW for the rest; its floating-point operations count matrices of side 768", Rate: 0.01,
		New:   func() Parameters { return new(muon) },
		First: map[Numerics]string{Stable: inOutText, EFormer: inOutText},
		// Five products of matrices whose singular values are near one, and what four calls of them add up to.
		Tolerance: 1e-4, CountedFor: "matrices of side 768",
	})
}

const inOutText = "every matrix is taken for [inputs, outputs]"

// muon are the parameters of optax.contrib.muon, with its names and defaults; see scaleByMuon for the equations.
type muon struct {
	NSCoeffs        [3]float64 `json:"ns_coeffs" default:"[3.4445,-4.775,2.0315]" doc:"coefficients of the Newton-Schulz step: a X + (b A + c A²) X with A = X Xᵀ"`
	NSSteps         int        `json:"ns_steps" default:"5" doc:"Newton-Schulz steps"`
	Beta            float64    `json:"beta" default:"0.95" doc:"decay of the momentum"`
	Eps             float64    `json:"eps" default:"1e-8" doc:"added to the norm of the momentum, and to the root of AdamW's second moment"`
	WeightDecay     float64    `json:"weight_decay" range:"[0,inf)" doc:"decay of matrices inside of the optimizer, before the rate, as in optax; prefer the options' weight_decay"`
	WeightDecayMask *Mask      `json:"weight_decay_mask" doc:"leaves that weight_decay applies to; null = all in eformer, the options' mask in stable"`
	MuDType         string     `json:"mu_dtype" default:"f32" range:"f32|bf16|" doc:"storage of the momentum and AdamW's first moment: f32 or bf16"`
	Nesterov        bool       `json:"nesterov" default:"true" doc:"Nesterov's form of the momentum and of AdamW's first moment"`
	Adaptive        bool       `json:"adaptive" doc:"multiply by the product of momentum and its orthogonal form"`
	ConsistentRMS   float64    `json:"consistent_rms" doc:"scale by this (0.2 for AdamW's rates) times the root of the larger side, instead of by the shape; 0 = off"`
	NorMuonB2       float64    `json:"normuon_b2" range:"[0,1)" doc:"NorMuon: decay of the second moment of an orthogonal update along its longer side, by whose root it is divided, 0.95 as published; 0 = off"`
	AdamB1          float64    `json:"adam_b1" default:"0.9" range:"[0,1)" doc:"decay of AdamW's first moment"`
	AdamB2          float64    `json:"adam_b2" default:"0.999" range:"[0,1)" doc:"decay of AdamW's second moment"`
	AdamEpsRoot     float64    `json:"adam_eps_root" range:"[0,inf)" doc:"added under AdamW's root"`
	AdamWeightDecay float64    `json:"adam_weight_decay" range:"[0,inf)" numerics:"stable" doc:"decay of AdamW's leaves inside of the optimizer; prefer the options' weight_decay"`
	AdamB21D        *float64   `json:"adam_b2_1d" range:"[0,1)" doc:"decay of AdamW's second moment of vectors and scalars; null = adam_b2"`
	AdamW           []string   `json:"adamw" doc:"patterns of paths that AdamW updates whatever their shape; null = embeddings and output head in stable, none in eformer"`
}

// Transform is chain(route(scale_by_muon, scale_by_adam), decays inside, scale_by_learning_rate): leaves of two
// dimensions go to Muon, except the leaves that the patterns name. Without patterns, these are the leaves of
// embeddings.Has, for which an orthogonal update is too much.
func (c *muon) Transform(lr Schedule, o Options) (Transform, error) {
	if err := o.oneDecay(max(c.WeightDecay, c.AdamWeightDecay)); err != nil {
		return Transform{}, err
	}
	rule, err := c.rule()
	if err != nil {
		return Transform{}, err
	}
	adam := renamed(ScaleByAdam(Adam{
		B1: c.AdamB1, B2: c.AdamB2, Eps: c.Eps, EpsRoot: c.AdamEpsRoot, MuDType: c.MuDType, Nesterov: c.Nesterov, B21D: c.AdamB21D,
	}, o.Numerics), map[string]string{"mu": "adam_mu", "nu": "adam_nu"})
	matrices := scaleByMuon(muonOptions{
		Coefficients: c.NSCoeffs, Steps: c.NSSteps, Beta: c.Beta, Eps: c.Eps, MuDType: storage(c.MuDType), Nesterov: c.Nesterov, Adaptive: c.Adaptive,
		ConsistentRMS: c.ConsistentRMS, Even: c.NorMuonB2, Numerics: o.Numerics, inOut: o.Edition == First,
	})
	if c.WeightDecay > 0 {
		matrices = Chain(matrices, AddDecayedWeights(c.WeightDecay, o.innerMask(c.WeightDecayMask)))
	}
	if c.AdamWeightDecay > 0 {
		adam = Chain(adam, AddDecayedWeights(c.AdamWeightDecay, o.WeightDecayMask))
	}
	t := Chain(rule, Route(&Mask{choose: c.chooses(o.Numerics)}, matrices, adam), ScaleByLearningRate(lr, o.Rates...))
	return t, t.err
}

// chooses is the rule by which leaves go to Muon; the patterns are known to be regular expressions.
func (c *muon) chooses(n Numerics) func(buffers.Leaf) bool {
	var expressions []*regexp.Regexp
	for _, p := range c.AdamW {
		expressions = append(expressions, regexp.MustCompile(p))
	}
	return func(l buffers.Leaf) bool {
		if c.AdamW == nil && n.rules().muonSparesTables && embeddings.Has(l.Path) {
			return false
		}
		return len(l.Shape) == 2 && !slices.ContainsFunc(expressions, func(e *regexp.Regexp) bool { return e.MatchString(l.Path) })
	}
}

// rule does nothing to updates: it refuses patterns given that match no path of the model. The defaults may match none.
func (c *muon) rule() (Transform, error) {
	for _, p := range c.AdamW {
		if _, err := regexp.Compile(p); err != nil {
			return Transform{}, fmt.Errorf("adamw: pattern %q: %w", p, err)
		}
	}
	return Elementwise(Element{
		Name: "adamw", keeps: true, Twin: func(*Cell) {},
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
