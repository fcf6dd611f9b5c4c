package model

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/graph"
	"gputrain/internal/formats"
)

// Losses of completions that the network drew, several of each prompt, with an advantage each: rows of a batch, each after its prompt, with the labels of the
// completion. lp is the log-probability of a token under logits/temperature, old what it was when the completion was drawn, A the row's advantage, n the
// number of its tokens, S a sum over the tokens that count. With rho = exp(lp - old), for gspo exp of the mean of lp - old over the row, a token has
//
//	v = max(-min(rho, delta) A, -clip(rho, 1-epsilon, 1+epsilon_high) A), without the cap where delta is 0; gspo's is the row's
//	cispo  v = -w A lp, w = min(rho, epsilon_high) without gradient
//
// and beta k beside, k = exp(q) - q - 1, q = ref - lp. The loss of an update is
//
//	grpo, gspo         the mean over all rows of S v / n
//	dapo, bnpo, cispo  S v of all rows / the tokens of all rows that count
//	dr_grpo            S v of all rows / (rows * max_completion_length)
//
// With on_policy, old are the log-probabilities of the update itself, without gradient: every rho is 1, and no pass before it is needed. That is so where each
// completion is learned from once, all in one update. Those of the sampler, which are given, are then only compared with: old_difference is the mean of
// |lp - old| over the tokens that count, old_difference_rms the root of the mean of its square. With mask_truncated_completions, of a row that is truncated no token counts; it is a row all the same.
// With skip_flat and no beta the tokens of a row whose advantage is 0 have no weight: it has no gradient, and nothing of it is computed where a batch has none but
// such rows (batchInputs.Idle). entropy and old_difference are then sums over the other rows; divisors are as they were.
// ref are those of the network without its adapters, or numbers that are given; none are read where beta is 0.
//
// grpo Shao et al. 2024 (arXiv:2402.03300); dapo Yu et al. 2025 (arXiv:2503.14476); dr_grpo Liu et al. 2025 (arXiv:2503.20783); gspo Zheng et al. 2025
// (arXiv:2507.18071); cispo MiniMax 2025 (arXiv:2506.13585); delta INTELLECT-2 2025 (arXiv:2505.07291); k Schulman 2020.
func init() {
	whole := number{Name: longestCompletion, Wanted: "a whole number above 0", Takes: func(v float64) bool { return v >= 1 && v <= largest && v == math.Trunc(v) }}
	low := number{Name: "epsilon", Wanted: "a number from 0 to 1", Takes: func(v float64) bool { return v >= 0 && v <= 1 }}
	flag := number{Name: maskTruncated, Wanted: "0 or 1", Takes: func(v float64) bool { return v == 0 || v == 1 }}
	once := flag
	once.Name = onPolicy
	skips := flag
	skips.Name = skipFlat
	all := []number{above0(temperature), from0("beta"), flag, once, skips}
	clipped := append([]number{low, from0("epsilon_high"), from0("delta")}, all...)
	capped := append([]number{above0("epsilon_high")}, all...)
	shares := []string{"clip_low", "clip_high"}
	for _, l := range []drawnLoss{
		{Loss: Loss{Name: "grpo", Numbers: clipped, Sums: shares}, by: byRows},
		{Loss: Loss{Name: "bnpo", Numbers: clipped, Sums: shares}, by: byTokens},
		{Loss: Loss{Name: "dapo", Numbers: clipped, Sums: shares}, by: byTokens},
		{Loss: Loss{Name: "dr_grpo", Numbers: append([]number{whole}, clipped...), Sums: shares}, by: byLongest},
		{Loss: Loss{Name: "gspo", Numbers: clipped, Sums: shares}, by: byRows, rows: true},
		{Loss: Loss{Name: "cispo", Numbers: capped, Sums: []string{"cispo_clip"}}, by: byTokens, weighs: true},
	} {
		l.Tag, l.Counts, l.Group, l.Form, l.Says, l.Entropy = "grpo", "completions", 1, formats.Prompts, "a prompt", true
		l.Sums, l.Shown = slices.Concat([]string{"entropy", "kl"}, l.Sums, []string{"old_difference", oldRMS}), []string{"entropy", "kl"}
		if !l.weighs {
			l.Sums, l.Maxima = append(l.Sums, "clip_high_max", "clip_low_min"), 2
		}
		l.derive, l.inputs, l.beside, l.build = drawnFigures, drawnInputs, drawnBeside, l.losses
		losses = append(losses, l.Loss)
	}
}

// drawnLoss is a row of the table of losses of completions that the network drew.
type drawnLoss struct {
	Loss
	by     int  // what the sum is divided by
	rows   bool // a ratio is that of a row
	weighs bool // the ratio weighs the log-probability
}

const (
	byRows = iota
	byTokens
	byLongest
)

const (
	temperature       = "temperature"
	maskTruncated     = "mask_truncated_completions"
	longestCompletion = "max_completion_length"
	onPolicy          = "on_policy"
	skipFlat          = "skip_flat"
)

// Inputs of graphs of completions that were drawn, beside inputWeights (1 for a label that counts, else 0), inputShares (1 / the tokens of a row that count,
// else 0), InputLabelScale and, of each label, InputReference.
const (
	InputAdvantages = "advantages" // f32 [batch]
	InputOld        = "old"        // f32 [batch*seq], the log-probabilities of the labels when they were drawn
	// BesideTruncated is no input: of each row of a batch 1 if the completion was cut off before its end, else 0.
	BesideTruncated = "truncated"
)

// oldRMS is the figure whose sum is one of squares.
const oldRMS = "old_difference_rms"

func drawnFigures(figures map[string]float64) {
	figures[oldRMS] = math.Sqrt(figures[oldRMS])
	if low, there := figures["clip_low"]; there {
		figures["clip_region"] = low + figures["clip_high"]
		least(figures, "clip_low_min")
	}
}

// drawnBeside are the numbers beside rows: advantages, and so on.
func drawnBeside(o Objective, adapted bool, seq int) map[string]int {
	of := map[string]int{InputAdvantages: 1, BesideTruncated: 1, InputOld: seq}
	if o.Numbers["beta"] != 0 && !adapted {
		of[InputReference] = seq
	}
	return of
}

// drawnInputs count every row with a completion, and the tokens of those that are not masked.
func drawnInputs(o Objective, rows Rows) batchInputs {
	weights, shares := make([]float32, len(rows.Labels)), make([]float32, rows.Count)
	in := batchInputs{Tokens: rows.Tokens, Labels: rows.Labels, Floats: map[string][]float32{
		inputWeights: weights, inputShares: shares,
		InputAdvantages: rows.Beside[InputAdvantages], InputOld: rows.Beside[InputOld], InputReference: rows.Beside[InputReference],
	}}
	lacking := func(row int, found, wanted string) {
		if in.Lacking == nil {
			in.Lacking = fmt.Errorf("batch: row %d: found %s, wanted %s", row, found, wanted)
		}
	}
	seq, truncated, masks := len(rows.Tokens)/max(1, rows.Count), rows.Beside[BesideTruncated], o.Numbers[maskTruncated] != 0
	advantages, skips := rows.Beside[InputAdvantages], o.Numbers[skipFlat] != 0 && o.Numbers["beta"] == 0
	in.Idle = true
	for row := range rows.Count {
		n := 0
		for i := row * seq; i < (row+1)*seq; i++ {
			if rows.Labels[i] != graph.IgnoreLabel {
				n++
			}
		}
		if n == 0 {
			lacking(row, "a completion without tokens", "at least one")
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(rows.Beside)) {
			values := rows.Beside[name]
			each := len(values) / rows.Count
			for _, x := range values[row*each : (row+1)*each] {
				if math.Abs(float64(x)) <= 1e30 {
					continue
				}
				lacking(row, fmt.Sprintf("%v among %s", x, name), "numbers from -1e30 to 1e30")
			}
		}
		in.Counts.Of++
		if masks && row < len(truncated) && truncated[row] != 0 {
			continue
		}
		in.Counts.Labels += int64(n)
		shares[row] = float32(1 / float64(n))
		if skips && row < len(advantages) && advantages[row] == 0 {
			continue
		}
		in.Idle = false
		for i := row * seq; i < (row+1)*seq; i++ {
			if rows.Labels[i] != graph.IgnoreLabel {
				weights[i] = 1
			}
		}
	}
	return in
}

// losses makes the loss, its figures and their sums.
func (l drawnLoss) losses(b *Builder, built *Built, losses *graph.Value) error {
	numbers, beta := b.o.Objective.Numbers, b.o.Objective.Numbers["beta"]
	weights, scale := b.Input(inputWeights, losses.Type()), b.Input(InputLabelScale, graph.F32())
	byRow := func(of *graph.Value) *graph.Value { return b.Reshape(of, b.batch, b.seq) }
	lp, counts := byRow(b.Apply("neg", losses)), byRow(weights)
	advantages := b.Reshape(b.Input(InputAdvantages, graph.F32(b.batch)), b.batch, 1)
	shares := b.Reshape(b.Input(inputShares, graph.F32(b.batch)), b.batch, 1)
	built.Figures = []figure{{"logps", b.Reshape(lp, b.batch*b.seq)}, {"entropy", built.entropies}}

	// Differences are 0 where a token does not count, so that nothing grows there.
	given := byRow(b.Input(InputOld, losses.Type()))
	off := b.Mul(b.Sub(b.StopGradient(lp), given), counts)
	off = b.Apply("max", off, b.Apply("neg", off))
	old := b.StopGradient(lp)
	if numbers[onPolicy] == 0 {
		old = given
	}
	ratio := b.Mul(b.Sub(lp, old), counts)
	if l.rows {
		ratio = b.Mul(b.Reshape(b.Sum(ratio, 1), b.batch, 1), shares)
	}
	ratio = b.Apply("exp", ratio)
	v, clips := l.value(b, numbers, ratio, lp, advantages)
	v = b.Mul(v, counts) // a row's ratio is that of each of its tokens
	kl := b.Constant(0)
	if beta != 0 {
		reference, err := b.referenceTokens()
		if err != nil {
			return err
		}
		q := b.Mul(b.Sub(byRow(reference), lp), counts)
		k := b.AddConst(b.Sub(b.Apply("exp", q), q), -1)
		built.Figures = append(built.Figures, figure{"reference_logps", reference}, figure{"kl", b.Reshape(k, b.batch*b.seq)})
		v, kl = b.Add(v, b.Scale(k, beta)), b.Sum(k)
	}
	sums := []*graph.Value{b.Mul(b.Sum(b.Mul(built.entropies, weights)), scale), b.Mul(kl, scale)}
	there, ofRows := b.AddConst(b.Scale(shares, 0), 1), slices.Clone(clips) // shares of rows
	for i, of := range clips {
		if !l.rows {
			of = b.Mul(of, counts)
			there, ofRows[i] = b.positive(shares), b.Mul(b.Reshape(b.Sum(of, 1), b.batch, 1), shares)
		}
		built.Figures = append(built.Figures, figure{l.Sums[2+i], b.Reshape(of, of.Type().Elements())})
		if of = b.Sum(of); !l.rows {
			of = b.Mul(of, scale)
		}
		sums = append(sums, of)
	}
	sums = append(sums, b.Mul(b.Sum(off), scale), b.Mul(b.Sum(b.Mul(off, off)), scale))
	switch {
	case l.by == byRows:
		v = b.Mul(v, shares)
	case l.by == byLongest:
		v = b.Scale(v, 1/numbers[longestCompletion])
	}
	loss := b.Sum(v)
	if l.by == byTokens {
		loss = b.Mul(loss, scale)
	}
	b.scaled(built, loss)
	for i, of := range sums {
		sums[i] = b.Reshape(of, 1)
	}
	built.Sums = b.Concat(0, sums...)
	if l.Maxima > 0 {
		b.tellGreatest(built, there, ofRows[1], b.Apply("neg", ofRows[0]))
	}
	return nil
}

// value is v of each ratio, but for the divergence from the reference, and where it was clipped: 1 or 0, of each ratio.
func (l drawnLoss) value(b *Builder, numbers map[string]float64, ratio, lp, advantages *graph.Value) (v *graph.Value, clips []*graph.Value) {
	high := numbers["epsilon_high"]
	less := b.Apply("neg", advantages)
	if l.weighs {
		weight := b.StopGradient(b.below(ratio, high))
		return b.Mul(b.Mul(weight, less), lp), []*graph.Value{b.Mul(b.positive(b.AddConst(ratio, -high)), b.positive(advantages))}
	}
	high++
	bounds := 1 - numbers["epsilon"]
	clipped := b.Apply("max", b.below(ratio, high), b.Constant(bounds))
	clips = []*graph.Value{
		b.Mul(b.positive(b.AddConst(b.Apply("neg", ratio), bounds)), b.positive(less)),
		b.Mul(b.positive(b.AddConst(ratio, -high)), b.positive(advantages)),
	}
	if delta := numbers["delta"]; delta != 0 {
		ratio = b.below(ratio, delta)
	}
	return b.Apply("max", b.Mul(ratio, less), b.Mul(clipped, less)), clips
}

// referenceTokens are the log-probabilities of labels by the network without its adapters, or those that are given.
func (b *Builder) referenceTokens() (*graph.Value, error) {
	if !b.refers() {
		return b.Input(InputReference, graph.F32(b.batch*b.seq)), nil
	}
	losses, err := b.reference()
	if err != nil {
		return nil, err
	}
	return b.Apply("neg", losses), nil
}

// below is min(x, bound).
func (b *Builder) below(x *graph.Value, bound float64) *graph.Value {
	return b.Apply("neg", b.Apply("max", b.Apply("neg", x), b.Constant(-bound)))
}

// positive is 1 where x is above 0, else 0.
func (b *Builder) positive(x *graph.Value) *graph.Value {
	return b.AddConst(b.Apply("neg", b.Apply("equal", b.Apply("relu", x), b.Constant(0))), 1)
}
