package model

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/graph"
	"gputrain/internal/suggest"
)

// The objectives of a Preference.
const (
	PreferSigmoid = "sigmoid" // DPO, Rafailov et al. 2023 (arXiv:2305.18290); smoothed, Mitchell 2023
	PreferORPO    = "orpo"    // Hong et al. 2024 (arXiv:2403.07691)
	PreferSimPO   = "simpo"   // Meng et al. 2024 (arXiv:2405.14734)
)

// Preferences are the objectives by name.
var Preferences = []string{PreferSigmoid, PreferORPO, PreferSimPO}

// Preference is an objective on pairs of completions of one prompt, of which the first is preferred to the second. c and r are the log-probabilities of
// the chosen and the rejected completion, summed over their tokens (sigmoid) or averaged (orpo, simpo), and those of the reference, the network without
// its adapters, for sigmoid alone. Of a pair, with e for LabelSmoothing and S for the logistic function:
//
//	sigmoid  -(1-e) log S(z) - e log S(-z), z = Beta ((c - c of the reference) - (r - r of the reference))
//	simpo    likewise with z = Beta (c - r) - Gamma
//	orpo     -Lambda log S(o), o = (c - r) - (log(1 - exp c) - log(1 - exp r)); the mean loss of the tokens of prompt and chosen completion is added
type Preference struct {
	Loss           string
	Beta           float64
	LabelSmoothing float64
	Gamma          float64
	Lambda         float64
}

// Validate refuses what is no objective, and what Loss does not read.
func (p Preference) Validate() error {
	if !slices.Contains(Preferences, p.Loss) {
		return fmt.Errorf("model: preference: loss: found %q, wanted one of %s%s", p.Loss, strings.Join(Preferences, ", "), suggest.DidYouMean(p.Loss, Preferences))
	}
	orpo := p.Loss == PreferORPO
	for _, n := range []struct {
		key    string
		value  float64
		read   bool
		wanted string
		ok     bool
	}{
		{"beta", p.Beta, !orpo, "a number above 0 and below 1e30", p.Beta > 0 && p.Beta < 1e30},
		{"label_smoothing", p.LabelSmoothing, !orpo, "a number from 0 to 0.5", p.LabelSmoothing >= 0 && p.LabelSmoothing <= 0.5},
		{"simpo_gamma", p.Gamma, p.Loss == PreferSimPO, "a number from 0 to 1e30", p.Gamma >= 0 && p.Gamma <= 1e30},
		{"orpo_lambda", p.Lambda, orpo, "a number above 0 and below 1e30", p.Lambda > 0 && p.Lambda < 1e30},
	} {
		switch {
		case n.read && !n.ok:
			return fmt.Errorf("model: preference: %s: found %v, wanted %s", n.key, n.value, n.wanted)
		case !n.read && n.value != 0:
			return fmt.Errorf("model: preference: %s: found %v, wanted none: %s has no such number", n.key, n.value, p.Loss)
		}
	}
	return nil
}

// Averages tells whether the log-probability of a completion is a mean over its tokens, not a sum.
func (p Preference) Averages() bool { return p.Loss != PreferSigmoid }

// Pairs is what a graph finds of the pairs of a batch. All are [batch/2] but NLL.
type Pairs struct {
	Chosen, Rejected                   *graph.Value // log-probabilities
	ReferenceChosen, ReferenceRejected *graph.Value // those of the reference; nil without one
	RewardChosen, RewardRejected       *graph.Value
	LogOdds                            *graph.Value // o of ORPO; else nil
	NLL                                *graph.Value // [], the loss of ORPO's tokens, summed and scaled as in LossSum; else nil
	Sums                               *graph.Value // [5], over the pairs that count: see PairFigures
}

// PairFigures are the names of Pairs.Sums: the rewards, how often that of the chosen completion is the greater, and the log-probabilities.
var PairFigures = [...]string{"rewards_chosen", "rewards_rejected", "accuracy", "logps_chosen", "logps_rejected"}

// sums makes Pairs.Sums with the pairs that count.
func (p *Pairs) sums(b *Builder, counts *graph.Value) *graph.Value {
	more := b.Apply("max", b.Sub(p.RewardChosen, p.RewardRejected), b.Constant(0))
	right := b.AddConst(b.Apply("neg", b.Apply("equal", more, b.Constant(0))), 1)
	var all []*graph.Value
	for _, of := range []*graph.Value{p.RewardChosen, p.RewardRejected, right, p.Chosen, p.Rejected} {
		all = append(all, b.Reshape(b.Sum(b.Mul(of, counts)), 1))
	}
	return b.Concat(0, all...)
}

// checkPreference refuses graphs that an objective on pairs has no meaning for.
func checkPreference(def Definition, batch int, o Options) error {
	wrong := func(found, wanted string) error {
		return fmt.Errorf("model: %s: build: preference: found %s, wanted %s", def.Kind(), found, wanted)
	}
	switch {
	case def.Vocab() == 0:
		return wrong("a network without tokens", "one that reads text")
	case !o.Loss:
		return wrong("no loss", "one")
	case batch%2 != 0:
		return wrong(fmt.Sprintf("batch %d", batch), "an even number: a chosen and a rejected completion a pair")
	case o.Documents:
		return wrong("documents in rows", "a row for each completion")
	case o.Preference.Loss == PreferSigmoid && o.adapted == nil:
		return wrong("sigmoid for a network without adapters", "one with some: the reference is the network without them")
	}
	return o.Preference.Validate()
}

// logProbabilities are those of the completions, [batch/2] of chosen and of rejected ones, of the loss of each label.
func (b *Builder) logProbabilities(losses *graph.Value) (chosen, rejected *graph.Value) {
	weights := b.Input(InputWeights, losses.Type())
	sums := b.Sum(b.Reshape(b.Mul(losses, weights), b.batch/2, 2, b.seq), 2)
	of := func(i int) *graph.Value {
		return b.Reshape(b.Apply("neg", b.Slice(sums, 1, i, 1)), b.batch/2)
	}
	return of(0), of(1)
}

// prefer makes the objective of the loss of each label.
func (b *Builder) prefer(built *Built, losses *graph.Value) error {
	if err := b.objective(built, losses); err != nil {
		return err
	}
	built.Pairs.Sums = built.Pairs.sums(b, b.Input(InputPairs, graph.F32(b.batch/2)))
	return nil
}

func (b *Builder) objective(built *Built, losses *graph.Value) error {
	p, pairs := *b.o.Preference, &Pairs{}
	built.Pairs = pairs
	pairs.Chosen, pairs.Rejected = b.logProbabilities(losses)
	counts := b.Input(InputPairs, graph.F32(b.batch/2))
	sum := func(of *graph.Value) *graph.Value { return b.Sum(b.Mul(of, counts)) }
	switch p.Loss {
	case PreferORPO:
		pairs.RewardChosen, pairs.RewardRejected = b.Scale(pairs.Chosen, p.Lambda), b.Scale(pairs.Rejected, p.Lambda)
		pairs.LogOdds = b.Sub(b.Sub(pairs.Chosen, pairs.Rejected), b.Sub(b.logComplement(pairs.Chosen), b.logComplement(pairs.Rejected)))
		learned := b.Sum(b.Slice(b.Reshape(losses, b.batch/2, 2, b.seq), 1, 0, 1))
		pairs.NLL = b.Mul(learned, b.Input(InputLearnedScale, graph.F32()))
		b.scaled(built, b.Add(pairs.NLL, b.Scale(sum(b.softplus(b.Apply("neg", pairs.LogOdds))), p.Lambda)))
		return nil
	case PreferSigmoid:
		reference, err := b.o.adapted.Definition.Build(b.batch, b.seq, Options{tokenLosses: true, into: b.Graph})
		if err != nil {
			return err
		}
		pairs.ReferenceChosen, pairs.ReferenceRejected = b.logProbabilities(reference.tokenLosses)
		pairs.RewardChosen = b.Scale(b.Sub(pairs.Chosen, pairs.ReferenceChosen), p.Beta)
		pairs.RewardRejected = b.Scale(b.Sub(pairs.Rejected, pairs.ReferenceRejected), p.Beta)
	case PreferSimPO:
		pairs.RewardChosen, pairs.RewardRejected = b.Scale(pairs.Chosen, p.Beta), b.Scale(pairs.Rejected, p.Beta)
	}
	z := b.Sub(pairs.RewardChosen, pairs.RewardRejected)
	if p.Gamma != 0 {
		z = b.AddConst(z, -p.Gamma)
	}
	loss := b.softplus(b.Apply("neg", z)) // -log S(z); -log S(-z) is z more
	if p.LabelSmoothing != 0 {
		loss = b.Add(loss, b.Scale(z, p.LabelSmoothing))
	}
	b.scaled(built, sum(loss))
	return nil
}

// softplus is log(1 + exp x) = max(x, 0) + log(1 + exp -|x|), which no x is too large for.
func (b *Builder) softplus(x *graph.Value) *graph.Value {
	rest := b.Apply("log", b.AddConst(b.Apply("exp", b.Apply("neg", b.Apply("abs", x))), 1))
	return b.Add(b.Apply("max", x, b.Constant(0)), rest)
}

// logComplement is log(1 - exp x) for x <= 0, without the difference of numbers near 1: with t = tanh(-x/2) it is log t + log(1 + exp x). A completion
// that is certain, x = 0, has odds that are finite, and no gradient of them.
func (b *Builder) logComplement(x *graph.Value) *graph.Value {
	t := b.Apply("max", b.Apply("tanh", b.Scale(x, -0.5)), b.Constant(1e-20))
	return b.Add(b.Apply("log", t), b.Apply("log", b.AddConst(b.Apply("exp", x), 1)))
}
