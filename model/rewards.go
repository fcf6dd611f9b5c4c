package model

import (
	"fmt"
	"slices"

	"gputrain/graph"
)

// Losses of scores, of rows with one label each, at their last token: see Rows.ends.
//
//	reward   -log S(s_c - s_r - margin) + center_rewards_coefficient (s_c + s_r)^2
//	classes  -log softmax(scores) at the row's label
//
// s_c and s_r are the scores of the chosen and of the rejected completion, rows 2i and 2i+1 of a batch, each after its prompt. reward is Ouyang et al. 2022
// (arXiv:2203.02155) with the margin of Touvron et al. 2023 (arXiv:2307.09288) and the centring of Eisenstein et al. 2023 (arXiv:2312.09244).
func init() {
	losses = append(losses, Loss{
		Name: "reward", Tag: "reward-model", Numbers: []number{from0(centering)}, Counts: "pairs", Group: 2, Head: HeadScores,
		Form: "ranked", Says: "a prompt, a chosen and a rejected completion",
		Sums: []string{"mean_reward", "accuracy", "margin", "max_reward", "min_reward"}, Maxima: 2, Shown: []string{"margin", "accuracy"},
		derive: func(figures map[string]float64) { least(figures, "min_reward") }, inputs: rewardInputs, build: buildReward,
	}, Loss{
		Name: "classes", Tag: "text-classification", Counts: "rows", Group: 1, Head: HeadScores, Form: "classes", Says: "a text and a label",
		Sums: []string{"accuracy"}, Shown: []string{"accuracy"},
		derive: asTheyAre, inputs: classInputs, build: buildClasses,
	})
}

const (
	centering = "center_rewards_coefficient"
	// InputMargin is in Rows.Beside by how much the score of a pair's chosen completion is to be greater, the same for both rows of a pair.
	InputMargin  = "margin"
	inputMargins = "margins" // f32 [batch/2]
	inputRights  = "rights"  // i32 [batch], the label of each row, 0 where it has none
	inputCounted = "counted" // f32 [n]: 1, or 0 for one that does not count
	inputOwn     = "own"     // f32 [n*n]: 1 where row and column are the same
)

// asTheyAre is of a loss whose figures are its sums.
func asTheyAre(map[string]float64) {}

func rewardInputs(_ Objective, rows Rows) (in batchInputs) {
	e := rows.ends(&in)
	counts, margins := make([]float32, rows.Count/2), make([]float32, rows.Count/2)
	for pair := range counts {
		if slices.Contains(e.labels[2*pair:2*pair+2], graph.IgnoreLabel) {
			in.lacks("batch: pair %d: found a row without a last token, wanted both rows to have one", pair)
			continue
		}
		counts[pair] = 1
		in.Counts.Of++
		if given := rows.Beside[InputMargin]; given != nil {
			margins[pair] = given[2*pair]
		}
	}
	in.Floats[inputPairs], in.Floats[inputMargins] = counts, margins
	return in
}

// lacks notes what rows lack, if they are the first.
func (in *batchInputs) lacks(format string, args ...any) {
	if in.Lacking == nil {
		in.Lacking = fmt.Errorf(format, args...)
	}
}

func buildReward(b *Builder, built *Built, scores *graph.Value) error {
	if scores.Shape()[1] != 1 {
		return fmt.Errorf("model: %s: build: reward: found a head of %d labels, wanted one", b.def.Kind(), scores.Shape()[1])
	}
	s := b.sides(b.Reshape(scores, b.batch))
	counts, apart, sum := b.Input(inputPairs, graph.F32(b.batch/2)), b.Sub(s[0], s[1]), b.Add(s[0], s[1])
	loss := b.softplus(b.Sub(b.Input(inputMargins, apart.Type()), apart))
	if k := b.o.Objective.Numbers[centering]; k != 0 {
		loss = b.Add(loss, b.Scale(b.Apply("square", sum), k))
	}
	built.Figures = []figure{{"scores", scores}}
	b.scaled(built, b.Sum(b.Mul(loss, counts)))
	b.tell(built, counts, b.Scale(sum, 0.5), b.above0(apart), apart)
	b.tellGreatest(built, counts, b.Apply("max", s[0], s[1]), b.Apply("max", b.Apply("neg", s[0]), b.Apply("neg", s[1])))
	return nil
}

// above0 is 1 where x is greater than 0, else 0.
func (b *Builder) above0(x *graph.Value) *graph.Value {
	return b.AddConst(b.Apply("neg", b.Apply("equal", b.Apply("max", x, b.Constant(0)), b.Constant(0))), 1)
}

func classInputs(_ Objective, rows Rows) (in batchInputs) {
	e := rows.ends(&in)
	counted, rights := make([]float32, rows.Count), make([]int32, rows.Count)
	for row, label := range e.labels {
		if label == graph.IgnoreLabel {
			in.lacks("batch: row %d: found no label, wanted one", row)
			continue
		}
		counted[row], rights[row] = 1, label
		in.Counts.Of++
	}
	in.Labels, in.Ints = e.labels, map[string][]int32{inputRights: rights}
	in.Floats[inputCounted], in.Floats[inputOwn] = counted, diagonal(rows.Count)
	return in
}

// diagonal is 1 where row and column of n are the same.
func diagonal(n int) []float32 {
	all := make([]float32, n*n)
	for i := range n {
		all[i*n+i] = 1
	}
	return all
}

// hits are the rows of scores [n, m] whose greatest is their own, which is on the diagonal of owns [n, n].
func (b *Builder) hits(scores, owns *graph.Value) *graph.Value {
	n := owns.Shape()[0]
	own := b.Sum(b.Mul(owns, b.Reshape(b.Input(inputOwn, graph.F32(n*n)), n, n)), 1)
	return b.Apply("equal", b.Max(scores, 1), own)
}

func buildClasses(b *Builder, built *Built, scores *graph.Value) error {
	if scores.Shape()[1] < 2 {
		return fmt.Errorf("model: %s: build: classes: found a head of one label, wanted two and more", b.def.Kind())
	}
	b.scaled(built, b.CrossEntropy(scores, b.ints(InputLabels, b.batch)))
	counted := b.Input(inputCounted, graph.F32(b.batch))
	hits := b.hits(scores, b.Embedding(b.Transpose(scores, 1, 0), b.ints(inputRights, b.batch)))
	built.Figures = []figure{{"scores", scores}, {"hits", hits}}
	b.tell(built, counted, hits)
	return nil
}
