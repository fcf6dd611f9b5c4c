package model

import (
	"fmt"
	"slices"

	"gputrain/graph"
)

// Losses of pairs of completions of one prompt, of which the first is preferred to the second: rows 2i and 2i+1 of a batch, each after its prompt, with the
// labels of the completion. c and r are the log-probabilities of the chosen and the rejected completion, summed over their tokens (sigmoid) or averaged (orpo,
// simpo), and those of the reference, the network without its adapters, for sigmoid alone. Of a pair, with e for label_smoothing and S for the logistic
// function:
//
//	sigmoid  -(1-e) log S(z) - e log S(-z), z = beta ((c - c of the reference) - (r - r of the reference))
//	simpo    likewise with z = beta (c - r) - simpo_gamma
//	orpo     -orpo_lambda log S(o), o = (c - r) - (log(1 - exp c) - log(1 - exp r)); the mean loss of the tokens of prompt and chosen completion is added
//
// sigmoid is DPO, Rafailov et al. 2023 (arXiv:2305.18290), smoothed, Mitchell 2023; orpo Hong et al. 2024 (arXiv:2403.07691); simpo Meng et al. 2024
// (arXiv:2405.14734).
func init() {
	beta, lambda := above0("beta"), above0("orpo_lambda")
	smoothing := number{"label_smoothing", "a number from 0 to 0.5", func(v float64) bool { return v >= 0 && v <= 0.5 }}
	gamma := number{"simpo_gamma", "a number from 0 to 1e30", func(v float64) bool { return v >= 0 && v <= 1e30 }}
	for _, l := range []Loss{
		{Name: sigmoid, Tag: "dpo", Numbers: []number{beta, smoothing}, Reference: true},
		{Name: orpo, Tag: orpo, Numbers: []number{lambda}},
		{Name: simpo, Tag: simpo, Numbers: []number{beta, smoothing, gamma}},
	} {
		l.Counts, l.Group, l.Form, l.Says = "pairs", 2, "pairs", "a prompt, a chosen and a rejected completion"
		l.Sums = []string{"rewards_chosen", "rewards_rejected", "accuracy", "logps_chosen", "logps_rejected"}
		l.Shown, l.derive = []string{"margin", "accuracy"}, withMargin
		l.inputs, l.build = pairInputs, (*Builder).pairs
		losses = append(losses, l)
	}
}

const sigmoid, orpo, simpo = "sigmoid", "orpo", "simpo"

func withMargin(figures map[string]float64) {
	figures["margin"] = figures["rewards_chosen"] - figures["rewards_rejected"]
}

// Averages tells whether the log-probability of a completion is a mean over its tokens, not a sum.
func (o Objective) Averages() bool { return o.Loss != sigmoid }

// Inputs of graphs of pairs, beside InputLabelScale.
const (
	inputWeights = "weights" // f32 [batch*seq], of each label in the log-probability of its completion
	inputPairs   = "pairs"   // f32 [batch/2]: 1, or 0 for a pair of which a row lacks the completion
)

// pairInputs have the labels of pairs that count, for ORPO also those of the prompts of chosen rows.
func pairInputs(o Objective, tokens, labels []int32, rows int) batchInputs {
	seq := len(tokens) / rows
	weights, counts := make([]float32, len(labels)), make([]float32, rows/2)
	in := batchInputs{Tokens: tokens, Labels: slices.Clone(labels), Floats: map[string][]float32{inputWeights: weights, inputPairs: counts}}
	ignored := func(label int32) bool { return label == graph.IgnoreLabel }
	for pair := range counts {
		var own [2]int // labels of the completions
		for side := range own {
			for _, label := range labels[(2*pair+side)*seq:][:seq] {
				if !ignored(label) {
					own[side]++
				}
			}
		}
		if own[0] == 0 || own[1] == 0 {
			for i := 2 * pair * seq; i < 2*(pair+1)*seq; i++ {
				in.Labels[i] = graph.IgnoreLabel
			}
			if in.Lacking == nil {
				in.Lacking = fmt.Errorf("batch: pair %d: found a completion without labels, wanted some in both", pair)
			}
			continue
		}
		counts[pair] = 1
		in.Counts.Of++
		in.Counts.Labels += int64(own[0])
		for side, n := range own {
			from := (2*pair + side) * seq
			weight := 1.0
			if o.Averages() {
				weight = 1 / float64(n)
			}
			begun := false
			for i := from; i < from+seq; i++ {
				switch {
				case !ignored(labels[i]):
					weights[i], begun = float32(weight), true
				case !begun && side == 0 && o.Loss == orpo:
					in.Labels[i] = tokens[i+1]
					in.Counts.Labels++
				}
			}
		}
	}
	return in
}

// logProbabilities are those of the completions, [batch/2] of chosen and of rejected ones, of the loss of each label.
func (b *Builder) logProbabilities(losses *graph.Value) (chosen, rejected *graph.Value) {
	weights := b.Input(inputWeights, losses.Type())
	sums := b.Sum(b.Reshape(b.Mul(losses, weights), b.batch/2, 2, b.seq), 2)
	of := func(i int) *graph.Value {
		return b.Reshape(b.Apply("neg", b.Slice(sums, 1, i, 1)), b.batch/2)
	}
	return of(0), of(1)
}

// pairs makes the loss, its figures and their sums.
func (b *Builder) pairs(built *Built, losses *graph.Value) error {
	o := b.o.Objective
	beta, lambda, smoothing := o.Numbers["beta"], o.Numbers["orpo_lambda"], o.Numbers["label_smoothing"]
	chosen, rejected := b.logProbabilities(losses)
	counts := b.Input(inputPairs, graph.F32(b.batch/2))
	sum := func(of *graph.Value) *graph.Value { return b.Sum(b.Mul(of, counts)) }
	built.Figures = []figure{{"logps_chosen", chosen}, {"logps_rejected", rejected}}
	var rewards [2]*graph.Value
	var more []figure
	switch o.Loss {
	case orpo:
		rewards = [2]*graph.Value{b.Scale(chosen, lambda), b.Scale(rejected, lambda)}
		odds := b.Sub(b.Sub(chosen, rejected), b.Sub(b.logComplement(chosen), b.logComplement(rejected)))
		learned := b.Sum(b.Slice(b.Reshape(losses, b.batch/2, 2, b.seq), 1, 0, 1))
		nll := b.Mul(learned, b.Input(InputLabelScale, graph.F32()))
		b.scaled(built, b.Add(nll, b.Scale(sum(b.softplus(b.Apply("neg", odds))), lambda)))
		more = []figure{{"log_odds", odds}, {"nll", nll}}
	case sigmoid:
		reference, err := b.reference()
		if err != nil {
			return err
		}
		c, r := b.logProbabilities(reference)
		rewards = [2]*graph.Value{b.Scale(b.Sub(chosen, c), beta), b.Scale(b.Sub(rejected, r), beta)}
		built.Figures = append(built.Figures, figure{"reference_chosen", c}, figure{"reference_rejected", r})
	case simpo:
		rewards = [2]*graph.Value{b.Scale(chosen, beta), b.Scale(rejected, beta)}
	}
	if o.Loss != orpo {
		z := b.Sub(rewards[0], rewards[1])
		if gamma := o.Numbers["simpo_gamma"]; gamma != 0 {
			z = b.AddConst(z, -gamma)
		}
		loss := b.softplus(b.Apply("neg", z)) // -log S(z); -log S(-z) is z more
		if smoothing != 0 {
			loss = b.Add(loss, b.Scale(z, smoothing))
		}
		b.scaled(built, sum(loss))
	}
	built.Figures = append(append(built.Figures, figure{"rewards_chosen", rewards[0]}, figure{"rewards_rejected", rewards[1]}), more...)
	wins := b.Apply("max", b.Sub(rewards[0], rewards[1]), b.Constant(0))
	right := b.AddConst(b.Apply("neg", b.Apply("equal", wins, b.Constant(0))), 1)
	b.tell(built, counts, rewards[0], rewards[1], right, chosen, rejected)
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
