package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gputrain/graph"
)

// Losses of pairs of completions of one prompt, of which the first is preferred to the second: rows 2i and 2i+1 of a batch, each after its prompt, with the
// labels of the completion. c and r are the log-probabilities of the chosen and the rejected completion, summed over their tokens or averaged (mean); lc and lr
// are c and r less those of the reference. With S for the logistic function, e for label_smoothing, x = beta lc, y = beta lr and z = x - y, where a loss
// without a reference has c and r in the place of lc and lr:
//
//	sigmoid, cpo_sigmoid  -(1-e) log S(z) - e log S(-z)
//	hinge, cpo_hinge      max(0, 1 - z)
//	ipo, cpo_ipo          (u - 1/(2 beta))^2, u the difference of the means of lc and lr over their tokens
//	sigmoid_norm          -log S(beta u)
//	robust                (-(1-e) log S(z) + e log S(-z)) / (1-2e)
//	exo_pair              p log(p/(1-e)) + (1-p) log((1-p)/e), p = S(z)
//	nca_pair              -log S(x) - log S(-x)/2 - log S(-y)/2
//	bco_pair              -log S(x) - log S(-y)
//	sppo_hard             (lc - 1/(2 beta))^2 + (lr + 1/(2 beta))^2
//	apo_zero, apo_down    1 - S(x) + S(y); S(x) + 1 - S(z)
//	discopop              -(1-g) log S(z) + g exp(-z), g = S(z/discopop_tau)
//	aot                   sigmoid's of beta (q - p), q = c - r and p that of the reference: the pairs of an update sorted by q, and by p
//	aot_unpaired          sigmoid's of beta (lc - lr), sorted likewise: the least lc with the least lr
//	simpo                 sigmoid's of z - simpo_gamma; with simpo_alpha a that is not 0 (AlphaPO) x = beta (1 - exp(-a c))/a, y likewise
//	orpo                  -orpo_lambda log S(o), o = (c - r) - (log(1 - exp c) - log(1 - exp r))
//
// The mean loss of tokens is added to orpo's, of those of prompts and chosen completions, and cpo_alpha times it to those of the cpo losses and simpo, of those
// of chosen completions alone.
//
// sigmoid is DPO, Rafailov et al. 2023 (arXiv:2305.18290), smoothed, Mitchell 2023; hinge Zhao et al. 2023 (arXiv:2305.10425); ipo Azar et al. 2023
// (arXiv:2310.12036), by length as its authors correct it; robust Chowdhury et al. 2024 (arXiv:2403.00409); exo_pair Ji et al. 2024 (arXiv:2402.00856);
// nca_pair Chen et al. 2024 (arXiv:2402.05369); bco_pair Jung et al. 2024 (arXiv:2404.04656); sppo_hard Wu et al. 2024 (arXiv:2405.00675); apo_zero and
// apo_down D'Oosterlinck et al. 2024 (arXiv:2408.06266); discopop Lu et al. 2024 (arXiv:2406.08414); aot and aot_unpaired Melnyk et al. 2024 (arXiv:2406.05882); cpo Xu et al. 2024 (arXiv:2401.08417); simpo Meng et al.
// 2024 (arXiv:2405.14734), AlphaPO Gupta et al. 2025 (arXiv:2501.03884); orpo Hong et al. 2024 (arXiv:2403.07691).
func init() {
	beta, lambda, tau := above0("beta"), above0("orpo_lambda"), above0("discopop_tau")
	smoothing := number{Name: "label_smoothing", Wanted: "a number from 0 to 0.5", Takes: func(v float64) bool { return v >= 0 && v <= 0.5 }}
	exchanged := number{Name: "label_smoothing", Wanted: "a number from 0 to below 0.5", Takes: func(v float64) bool { return v >= 0 && v < 0.5 }}
	smoothed := number{Name: "label_smoothing", Wanted: "a number above 0, at most 0.5: 0.001 is usual", Takes: func(v float64) bool { return v > 0 && v <= 0.5 }}
	gamma, alpha, cpo := from0("simpo_gamma"), number{Name: "simpo_alpha", Wanted: "a number from -1e30 to 1e30", Takes: finite}, from0(cpoAlpha)
	cpo.Default = 1
	plain := from0(cpoAlpha)
	for _, l := range []pairLoss{
		{Loss: Loss{Name: sigmoid, Tag: "dpo", Numbers: []number{beta, smoothing}, Reference: true}, of: pair.sigmoid},
		{Loss: Loss{Name: "hinge", Numbers: []number{beta}, Reference: true}, of: pair.hinge},
		{Loss: Loss{Name: "ipo", Numbers: []number{beta}, Reference: true}, of: pair.ipo},
		{Loss: Loss{Name: "sigmoid_norm", Numbers: []number{beta}, Reference: true}, of: pair.sigmoidNorm},
		{Loss: Loss{Name: "robust", Numbers: []number{beta, exchanged}, Reference: true}, of: pair.robust},
		{Loss: Loss{Name: "exo_pair", Numbers: []number{beta, smoothed}, Reference: true}, of: pair.exo},
		{Loss: Loss{Name: "nca_pair", Numbers: []number{beta}, Reference: true}, of: pair.nca},
		{Loss: Loss{Name: "bco_pair", Numbers: []number{beta}, Reference: true}, of: pair.bco},
		{Loss: Loss{Name: "sppo_hard", Numbers: []number{beta}, Reference: true}, of: pair.sppo},
		{Loss: Loss{Name: "apo_zero", Numbers: []number{beta}, Reference: true}, of: pair.apoZero},
		{Loss: Loss{Name: "apo_down", Numbers: []number{beta}, Reference: true}, of: pair.apoDown},
		{Loss: Loss{Name: "discopop", Numbers: []number{beta, tau}, Reference: true}, of: pair.discopop},
		{Loss: Loss{Name: "aot", Numbers: []number{beta, smoothing}, Reference: true, Ahead: matching(false)}, of: pair.aot},
		{Loss: Loss{Name: "aot_unpaired", Numbers: []number{beta, smoothing}, Reference: true, Ahead: matching(true)}, of: pair.aotUnpaired},
		{Loss: Loss{Name: "cpo_sigmoid", Tag: "cpo", Numbers: []number{beta, smoothing, cpo}}, of: pair.sigmoid},
		{Loss: Loss{Name: "cpo_hinge", Tag: "cpo", Numbers: []number{beta, cpo}}, of: pair.hinge},
		{Loss: Loss{Name: "cpo_ipo", Tag: "cpo", Numbers: []number{beta, cpo}, Mean: true}, of: pair.ipo},
		{Loss: Loss{Name: simpo, Tag: simpo, Numbers: []number{beta, smoothing, gamma, alpha, plain}, Mean: true}, of: pair.sigmoid},
		{Loss: Loss{Name: orpo, Tag: orpo, Numbers: []number{lambda}, Mean: true}, scale: lambda.Name, prompts: true, of: pair.odds},
	} {
		l.Counts, l.Group, l.Form, l.Says = "pairs", 2, "pairs", "a prompt, a chosen and a rejected completion"
		l.Sums = []string{"rewards_chosen", "rewards_rejected", "accuracy", "logps_chosen", "logps_rejected"}
		l.Shown, l.derive = []string{"margin", "accuracy"}, withMargin
		l.Tag, l.scale = cmp.Or(l.Tag, "dpo"), cmp.Or(l.scale, beta.Name)
		l.inputs, l.build, l.Packs = l.pairInputs, l.pairs, l.Ahead == nil
		losses = append(losses, l.Loss)
	}
}

// pairLoss is a row of the table of losses of pairs.
type pairLoss struct {
	Loss
	scale   string // the number that log-probabilities are multiplied by to be rewards
	prompts bool   // the mean loss of tokens is of prompts too, and is weighed by 1, the loss of pairs by scale
	of      func(pair) *graph.Value
}

const (
	sigmoid, orpo, simpo = "sigmoid", "orpo", "simpo"
	cpoAlpha             = "cpo_alpha"
)

func withMargin(figures map[string]float64) {
	figures["margin"] = figures["rewards_chosen"] - figures["rewards_rejected"]
}

// Inputs of graphs of pairs, beside InputLabelScale. Where completions are packed batch stands for how many there is room for.
const (
	inputWeights = "weights" // f32 [batch*seq], of each label in the log-probability of its completion
	inputPairs   = "pairs"   // f32 [batch/2]: 1, or 0 for a pair of which a row lacks the completion
	inputShares  = "shares"  // f32 [batch]: 1 / tokens of the completion, 0 for a pair that does not count
	inputMatched = "matched" // f32 [batch]: see matching
	// InputReference is f32 [batch], the log-probabilities of completions by a reference that is not part of the graph.
	InputReference = "reference"
)

// pairInputs have the labels of pairs that count, for ORPO also those of the prompts of chosen rows.
func (l pairLoss) pairInputs(_ Objective, rows Rows) batchInputs {
	tokens, labels, spans := rows.Tokens, rows.Labels, rows.spans()
	weights, counts, shares := make([]float32, len(labels)), make([]float32, len(spans)/2), make([]float32, len(spans))
	in := batchInputs{Tokens: tokens, Labels: slices.Clone(labels), Floats: map[string][]float32{
		inputWeights: weights, inputPairs: counts, inputShares: shares, InputReference: rows.Beside[InputReference],
		inputMatched: rows.Beside[inputMatched],
	}}
	rows.place(in.Floats)
	ignored := func(label int32) bool { return label == graph.IgnoreLabel }
	for pair := range counts {
		var own [2]int // labels of the completions
		for side := range own {
			span := spans[2*pair+side]
			for _, label := range labels[span[0]:span[1]] {
				if !ignored(label) {
					own[side]++
				}
			}
		}
		if own[0] == 0 || own[1] == 0 {
			for _, span := range spans[2*pair : 2*pair+2] {
				for i := span[0]; i < span[1]; i++ {
					in.Labels[i] = graph.IgnoreLabel
				}
			}
			if in.Lacking == nil && (rows.perWindow <= 1 || own[0]+own[1] > 0) { // else nothing is there
				in.Lacking = fmt.Errorf("batch: pair %d: found a completion without labels, wanted some in both", pair)
			}
			continue
		}
		counts[pair] = 1
		in.Counts.Of++
		in.Counts.Labels += int64(own[0])
		for side, n := range own {
			span := spans[2*pair+side]
			share := float32(1 / float64(n))
			shares[2*pair+side] = share
			weight := float32(1)
			if l.Mean {
				weight = share
			}
			begun := false
			for i := span[0]; i < span[1]; i++ {
				switch {
				case !ignored(labels[i]):
					weights[i], begun = weight, true
				case !begun && side == 0 && l.prompts:
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
	sums := b.ofPairs(b.Mul(losses, weights))
	of := func(i int) *graph.Value {
		return b.Reshape(b.Apply("neg", b.Slice(sums, 1, i, 1)), b.completions()/2)
	}
	return of(0), of(1)
}

// pair has the values [batch/2] that losses of pairs are functions of.
type pair struct {
	*Builder
	numbers  map[string]float64
	own, net [2]*graph.Value // log-probabilities of the chosen and the rejected completion: the network's; less the reference's, if there is one
	rewards  [2]*graph.Value // net, scaled
	mean     bool
	built    *Built // which a loss may add figures to
}

// pairs makes the loss, its figures and their sums.
func (l pairLoss) pairs(b *Builder, built *Built, losses *graph.Value) error {
	p := pair{Builder: b, numbers: b.o.Objective.Numbers, mean: l.Mean, built: built}
	p.own[0], p.own[1] = b.logProbabilities(losses)
	p.net = p.own
	n := b.completions()
	counts := b.Input(inputPairs, graph.F32(n/2))
	built.Figures = []figure{{"logps_chosen", p.own[0]}, {"logps_rejected", p.own[1]}}
	if l.Reference && !b.refers() {
		built.Rows = b.Reshape(b.Concat(1, b.Reshape(p.own[0], n/2, 1), b.Reshape(p.own[1], n/2, 1)), n)
	}
	if l.Reference {
		reference, err := b.referencePairs()
		if err != nil {
			return err
		}
		for side, of := range reference {
			p.net[side] = b.Sub(p.own[side], of)
		}
		built.Figures = append(built.Figures, figure{"reference_chosen", reference[0]}, figure{"reference_rejected", reference[1]})
	}
	for side, of := range p.net {
		if a := p.numbers["simpo_alpha"]; a != 0 {
			of = b.Scale(b.AddConst(b.Apply("neg", b.Apply("exp", b.Scale(of, -a))), 1), 1/a)
		}
		p.rewards[side] = b.Scale(of, p.numbers[l.scale])
	}
	built.Figures = append(built.Figures, figure{"rewards_chosen", p.rewards[0]}, figure{"rewards_rejected", p.rewards[1]})
	of := l.of(p)
	loss := b.Sum(b.Mul(of, counts))
	if alpha := p.numbers[cpoAlpha]; l.prompts || alpha != 0 {
		nll := b.Mul(b.ofChosen(losses), b.Input(InputLabelScale, graph.F32()))
		built.Figures = append(built.Figures, figure{"nll", nll})
		if l.prompts {
			loss = b.Add(nll, b.Scale(loss, p.numbers[l.scale]))
		} else {
			loss = b.Add(loss, b.Scale(nll, alpha))
		}
	}
	b.scaled(built, loss)
	wins := b.Apply("max", b.Sub(p.rewards[0], p.rewards[1]), b.Constant(0))
	right := b.AddConst(b.Apply("neg", b.Apply("equal", wins, b.Constant(0))), 1)
	b.tell(built, counts, p.rewards[0], p.rewards[1], right, p.own[0], p.own[1])
	return nil
}

// referencePairs are the log-probabilities of completions by the reference: those of the network without its adapters, or those that are given.
func (b *Builder) referencePairs() (of [2]*graph.Value, err error) {
	if b.refers() {
		losses, err := b.reference()
		if err == nil {
			of[0], of[1] = b.logProbabilities(losses)
		}
		return of, err
	}
	return b.sides(b.Input(InputReference, graph.F32(b.completions()))), nil
}

// sides are the values of chosen and of rejected rows, of all [batch].
func (b *Builder) sides(all *graph.Value) (of [2]*graph.Value) {
	all = b.Reshape(all, b.completions()/2, 2)
	for side := range of {
		of[side] = b.Reshape(b.Slice(all, 1, side, 1), b.completions()/2)
	}
	return of
}

// z is the difference of the rewards.
func (p pair) z() *graph.Value {
	z := p.Sub(p.rewards[0], p.rewards[1])
	if gamma := p.numbers["simpo_gamma"]; gamma != 0 {
		z = p.AddConst(z, -gamma)
	}
	return z
}

// apart is the difference of the means of net over the tokens of completions.
func (p pair) apart() *graph.Value {
	if p.mean {
		return p.Sub(p.net[0], p.net[1])
	}
	var means [2]*graph.Value
	for side, share := range p.sides(p.Input(inputShares, graph.F32(p.completions()))) {
		means[side] = p.Mul(p.net[side], share)
	}
	return p.Sub(means[0], means[1])
}

// unlikely is -log S(x).
func (p pair) unlikely(x *graph.Value) *graph.Value { return p.softplus(p.Apply("neg", x)) }

func (p pair) sigmoid() *graph.Value { return p.smoothed(p.z()) }

// smoothed is -(1-e) log S(z) - e log S(-z).
func (p pair) smoothed(z *graph.Value) *graph.Value {
	loss := p.unlikely(z) // -log S(-z) is z more
	if e := p.numbers["label_smoothing"]; e != 0 {
		loss = p.Add(loss, p.Scale(z, e))
	}
	return loss
}

func (p pair) hinge() *graph.Value { return p.Apply("relu", p.AddConst(p.Apply("neg", p.z()), 1)) }

func (p pair) ipo() *graph.Value {
	return p.Apply("square", p.AddConst(p.apart(), -1/(2*p.numbers["beta"])))
}

func (p pair) sigmoidNorm() *graph.Value { return p.unlikely(p.Scale(p.apart(), p.numbers["beta"])) }

func (p pair) robust() *graph.Value {
	z, e := p.z(), p.numbers["label_smoothing"]
	return p.Sub(p.unlikely(z), p.Scale(z, e/(1-2*e)))
}

func (p pair) exo() *graph.Value {
	z, e := p.z(), p.numbers["label_smoothing"]
	likely := p.Mul(p.Apply("sigmoid", z), p.AddConst(p.Apply("neg", p.unlikely(z)), -math.Log1p(-e)))
	z = p.Apply("neg", z)
	return p.Add(likely, p.Mul(p.Apply("sigmoid", z), p.AddConst(p.Apply("neg", p.unlikely(z)), -math.Log(e))))
}

func (p pair) nca() *graph.Value {
	x, y := p.rewards[0], p.rewards[1]
	return p.Add(p.unlikely(x), p.Scale(p.Add(p.softplus(x), p.softplus(y)), 0.5))
}

func (p pair) bco() *graph.Value { return p.Add(p.unlikely(p.rewards[0]), p.softplus(p.rewards[1])) }

func (p pair) sppo() *graph.Value {
	half := 1 / (2 * p.numbers["beta"])
	return p.Add(p.Apply("square", p.AddConst(p.net[0], -half)), p.Apply("square", p.AddConst(p.net[1], half)))
}

func (p pair) apoZero() *graph.Value {
	return p.Add(p.Apply("sigmoid", p.Apply("neg", p.rewards[0])), p.Apply("sigmoid", p.rewards[1]))
}

func (p pair) apoDown() *graph.Value {
	return p.Add(p.Apply("sigmoid", p.rewards[0]), p.Apply("sigmoid", p.Apply("neg", p.z())))
}

// discopop has g exp(-z) as exp(log g - z), which is 0 where g is 0 and exp(-z) beyond f32.
func (p pair) discopop() *graph.Value {
	z := p.z()
	inner := p.Scale(z, 1/p.numbers["discopop_tau"])
	steep := p.Apply("exp", p.Apply("neg", p.Add(p.unlikely(inner), z)))
	return p.Add(p.Mul(p.Apply("sigmoid", p.Apply("neg", inner)), p.unlikely(z)), steep)
}

// matching lays beside each row of a pair what it is compared with: for aot p of the pair that q of this one is matched with, unpaired for a chosen completion
// the net log-probability of the rejected one that is as far from the least, and for that the chosen one's.
func matching(unpaired bool) *Ahead {
	return &Ahead{lays: inputMatched, of: func(_ map[string]float64, seen Seen, _ map[string]float64) []float64 {
		var rows []int // the first of each pair that counts
		var left, right []float64
		for row := 0; row < len(seen.Counts); row += 2 {
			if !seen.Counts[row] || !seen.Counts[row+1] {
				continue
			}
			rows = append(rows, row)
			chosen, rejected := row, row+1
			if unpaired {
				left, right = append(left, seen.own(chosen)-seen.reference(chosen)), append(right, seen.own(rejected)-seen.reference(rejected))
			} else {
				left, right = append(left, seen.own(chosen)-seen.own(rejected)), append(right, seen.reference(chosen)-seen.reference(rejected))
			}
		}
		matched := make([]float64, len(seen.Counts))
		of := sorted(right)
		for i, at := range sorted(left) {
			if matched[rows[at]] = right[of[i]]; unpaired {
				matched[rows[of[i]]+1] = left[at]
			}
		}
		return matched
	}}
}

// sorted are indices in the order of values, of equals the first first.
func sorted(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return order
}

// matched are what matching has laid beside rows.
func (p pair) matched() [2]*graph.Value { return p.sides(p.Input(inputMatched, graph.F32(p.batch))) }

func (p pair) aot() *graph.Value {
	q := p.Sub(p.own[0], p.own[1])
	return p.smoothed(p.Scale(p.Sub(q, p.matched()[0]), p.numbers["beta"]))
}

// aotUnpaired counts each match once, by its chosen row; its rejected row, of another pair, has the gradient alone.
func (p pair) aotUnpaired() *graph.Value {
	with, beta := p.matched(), p.numbers["beta"]
	again := p.smoothed(p.Scale(p.Sub(with[1], p.net[1]), beta))
	return p.Add(p.smoothed(p.Scale(p.Sub(p.net[0], with[0]), beta)), p.Sub(again, p.StopGradient(again)))
}

// odds is -log S(o).
func (p pair) odds() *graph.Value {
	c, r := p.own[0], p.own[1]
	odds := p.Sub(p.Sub(c, r), p.Sub(p.logComplement(c), p.logComplement(r)))
	p.built.Figures = append(p.built.Figures, figure{"log_odds", odds})
	return p.unlikely(odds)
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
