package model

import (
	"fmt"

	"gputrain/graph"
)

// Losses of completions that are good or bad, one a row. m is the log-probability of a completion less that by the reference, summed over its tokens, s is 1
// for a good one and -1 for a bad one. With S for the logistic function, each is desirable_weight or undesirable_weight times
//
//	kto                S(-s beta (m - z0))
//	apo_zero_unpaired  S(-s beta m)
//	bco                -log S(s (beta m - delta))
//
// z0 is the mean of m over mismatched rows (Ahead.Mismatched), at least 0, and delta the mean of beta m over all rows that were learned so far, those of this
// update among them. Both are of whole updates and have no gradient.
//
// kto is Ethayarajh et al. 2024 (arXiv:2402.01306), apo_zero_unpaired D'Oosterlinck et al. 2024 (arXiv:2408.06266), bco Jung et al. 2024 (arXiv:2404.04656).
func init() {
	beta, desirable, undesirable := above0("beta"), from0("desirable_weight"), from0("undesirable_weight")
	desirable.Default, undesirable.Default = 1, 1
	shift := &Ahead{Mismatched: true, lays: "z0", of: func(_ map[string]float64, seen Seen, _ map[string]float64) []float64 {
		return forEach(max(0, meanOf(seen.net())), len(seen.Counts))
	}}
	running := &Ahead{Memory: []string{"mean", "count"}, lays: "delta", of: func(numbers map[string]float64, seen Seen, memory map[string]float64) []float64 {
		if net := seen.net(); seen.Learning && len(net) > 0 {
			memory["count"] += float64(len(net))
			memory["mean"] += (numbers["beta"]*meanOf(net) - memory["mean"]) * float64(len(net)) / memory["count"]
		}
		return forEach(memory["mean"], len(seen.Counts))
	}}
	for _, l := range []unpairedLoss{
		{Loss: Loss{Name: "kto", Ahead: shift}, figure: "kl", of: unpaired.kto},
		{Loss: Loss{Name: "apo_zero_unpaired"}, of: unpaired.apoZero},
		{Loss: Loss{Name: "bco", Ahead: running}, figure: "delta", of: unpaired.bco},
	} {
		l.Numbers, l.Reference, l.Tag, l.Counts, l.Group = []number{beta, desirable, undesirable}, true, "kto", "rows", 1
		l.Form, l.Says = "labelled", "a prompt, a completion and a label"
		l.Sums = []string{"good", "rewards_chosen", "rewards_rejected", "logps_chosen", "logps_rejected"}
		if l.figure != "" {
			l.Sums = append(l.Sums, l.figure)
		}
		l.Shown, l.derive, l.beside, l.Packs = []string{"margin"}, ofEachClass, goodBeside, l.Ahead == nil
		l.inputs, l.build = unpairedInputs, l.rows
		losses = append(losses, l.Loss)
	}
}

// InputGood is f32 [batch] beside rows: 1 for a good one, 0 for a bad one.
const InputGood = "good"

// unpairedLoss is a row of the table of such losses.
type unpairedLoss struct {
	Loss
	figure string // what the number is called that Ahead lays
	of     func(unpaired) *graph.Value
}

// ofEachClass makes of means over all rows those over the good and over the bad ones. Without any there is none.
func ofEachClass(figures map[string]float64) {
	good := figures["good"]
	for class, share := range map[string]float64{"chosen": good, "rejected": 1 - good} {
		for _, name := range []string{"rewards_" + class, "logps_" + class} {
			if figures[name] /= share; share <= 0 {
				delete(figures, name)
			}
		}
	}
	if good > 0 && good < 1 {
		withMargin(figures)
	}
}

// completionInputs have the labels of completions, one a row.
func completionInputs(rows Rows) batchInputs {
	spans := rows.spans()
	weights, counted := make([]float32, len(rows.Labels)), make([]float32, len(spans))
	in := batchInputs{Tokens: rows.Tokens, Labels: rows.Labels, Floats: map[string][]float32{inputWeights: weights, inputCounted: counted}}
	rows.place(in.Floats)
	for row, span := range spans {
		for i := span[0]; i < span[1]; i++ {
			if rows.Labels[i] != graph.IgnoreLabel {
				weights[i], counted[row] = 1, 1
			}
		}
		if counted[row] == 1 {
			in.Counts.Of++
		} else if rows.perWindow <= 1 && in.Lacking == nil {
			in.Lacking = fmt.Errorf("batch: row %d: found a completion without labels, wanted some", row)
		}
	}
	return in
}

func unpairedInputs(_ Objective, rows Rows) batchInputs {
	in := completionInputs(rows)
	for name, values := range rows.Beside {
		in.Floats[name] = values
	}
	for row, label := range rows.Beside[InputGood] {
		if label != 0 && label != 1 && in.Lacking == nil {
			in.Lacking = fmt.Errorf("batch: row %d: label: found %v, wanted 1 (good) or 0", row, label)
		}
	}
	return in
}

// rowLogProbabilities are those of the completions, [batch], of the loss of each label.
func (b *Builder) rowLogProbabilities(losses *graph.Value) *graph.Value {
	weights := b.Input(inputWeights, losses.Type())
	return b.Apply("neg", b.ofEach(b.Mul(losses, weights)))
}

// bothOf are the log-probabilities of completions by the network and by the reference.
func (b *Builder) bothOf(losses *graph.Value) (own, reference *graph.Value, err error) {
	own = b.rowLogProbabilities(losses)
	if !b.refers() {
		return own, b.Input(InputReference, graph.F32(b.completions())), nil
	}
	if losses, err = b.reference(); err == nil {
		reference = b.rowLogProbabilities(losses)
	}
	return own, reference, err
}

// unpaired has the values [batch] that losses of rows are functions of.
type unpaired struct {
	*Builder
	numbers            map[string]float64
	reward, sign, laid *graph.Value
}

// rows makes the loss, its figures and their sums.
func (l unpairedLoss) rows(b *Builder, built *Built, losses *graph.Value) error {
	own, reference, err := b.bothOf(losses)
	if err != nil {
		return err
	}
	if !b.refers() {
		built.Rows = own
	}
	n := b.completions()
	counted, good := b.Input(inputCounted, graph.F32(n)), b.Input(InputGood, graph.F32(n))
	u := unpaired{Builder: b, numbers: b.o.Objective.Numbers, sign: b.AddConst(b.Scale(good, 2), -1)}
	u.reward = b.Scale(b.Sub(own, reference), u.numbers["beta"])
	built.Figures = []figure{{"logps", own}, {"reference_logps", reference}, {"rewards", u.reward}, {InputGood, good}}
	if l.Ahead != nil {
		u.laid = b.Input(l.Ahead.lays, graph.F32(n))
		built.Figures = append(built.Figures, figure{l.figure, u.laid})
	}
	desirable, undesirable := u.numbers["desirable_weight"], u.numbers["undesirable_weight"]
	weight := b.AddConst(b.Scale(good, desirable-undesirable), undesirable)
	b.scaled(built, b.Sum(b.Mul(b.Mul(l.of(u), weight), counted)))
	bad := b.Sub(counted, good)
	told := []*graph.Value{good, b.Mul(good, u.reward), b.Mul(bad, u.reward), b.Mul(good, own), b.Mul(bad, own)}
	if u.laid != nil {
		told = append(told, u.laid)
	}
	b.tell(built, counted, told...)
	return nil
}

// unlikely is S(-s x).
func (u unpaired) unlikely(x *graph.Value) *graph.Value {
	return u.Apply("sigmoid", u.Apply("neg", u.Mul(u.sign, x)))
}

func (u unpaired) kto() *graph.Value {
	return u.unlikely(u.Sub(u.reward, u.Scale(u.laid, u.numbers["beta"])))
}

func (u unpaired) apoZero() *graph.Value { return u.unlikely(u.reward) }

func (u unpaired) bco() *graph.Value {
	return u.softplus(u.Apply("neg", u.Mul(u.sign, u.Sub(u.reward, u.laid))))
}

// goodBeside are the numbers beside rows.
func goodBeside(Objective, bool, int) map[string]int { return map[string]int{InputGood: 1} }
