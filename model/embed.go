package model

import (
	"fmt"
	"math"

	"gputrain/graph"
)

// embed is the loss of vectors (van den Oord et al. 2018, arXiv:1807.03748): each query is to be nearest to its positive, of the candidates of all rows, which
// are their positives and then their negatives:
//
//	-log softmax(q . candidates / temperature) at the row's own positive
//
// A batch has for each row its query, its positive and so many negatives, one behind the other. A row may have fewer: those without a last token are no
// candidates.
func init() {
	losses = append(losses, Loss{
		Name: "embed", Tag: "sentence-similarity", Counts: "rows", Group: 2, grows: negatives, Head: HeadVectors, Whole: true,
		Numbers: []number{above0(temperature), {Name: negatives, Wanted: "a whole number from 0 to 1000", Takes: func(v float64) bool {
			return v >= 0 && v <= 1000 && v == math.Trunc(v)
		}}},
		Form: "queries", Says: "a query, a positive and negatives",
		Sums: []string{"accuracy", "positive_similarity"}, Shown: []string{"accuracy", "positive_similarity"},
		derive: asTheyAre, inputs: embedInputs, build: buildEmbed,
	})
}

const (
	negatives = "negatives"
	// inputAbsent is f32 [candidates]: 0, or what makes one that is not there the farthest.
	inputAbsent = "absent"
)

func embedInputs(_ Objective, rows Rows) (in batchInputs) {
	e := rows.ends(&in)
	n := rows.Count / rows.group
	counted, absent, labels := make([]float32, n), make([]float32, n*(rows.group-1)), make([]int32, n)
	for i := range n {
		there := func(at int) bool { return e.labels[i*rows.group+at] != graph.IgnoreLabel }
		labels[i] = graph.IgnoreLabel
		if there(0) && there(1) {
			counted[i], labels[i] = 1, int32(i)
			in.Counts.Of++
		} else if in.Lacking == nil {
			in.Lacking = fmt.Errorf("batch: row %d: found a query or a positive without tokens, wanted some in both", i)
		}
		for at := 1; at < rows.group; at++ {
			place := i // positives come first
			if at > 1 {
				place = n + i*(rows.group-2) + at - 2
			}
			if !there(at) || !there(0) && at == 1 {
				absent[place] = -1e30
			}
		}
	}
	in.Labels = labels
	in.Floats[inputCounted], in.Floats[inputAbsent], in.Floats[inputOwn] = counted, absent, diagonal(n)
	return in
}

func buildEmbed(b *Builder, built *Built, vectors *graph.Value) error {
	group, width := b.o.Objective.Row().Group, vectors.Shape()[1]
	n := b.batch / group
	part := func(first, count int) *graph.Value {
		return b.Reshape(b.Slice(b.Reshape(vectors, n, group, width), 1, first, count), n*count, width)
	}
	candidates := part(1, 1)
	if group > 2 {
		candidates = b.Concat(0, candidates, part(2, group-2))
	}
	queries := part(0, 1)
	near := b.MatMul(queries, candidates, false, true)
	logits := b.Add(b.Scale(near, 1/b.o.Objective.Numbers[temperature]), b.Input(inputAbsent, graph.F32(n*(group-1))))
	b.KeepF32(queries, candidates, near, logits) // they are divided by small temperatures
	b.scaled(built, b.CrossEntropy(logits, b.ints(InputLabels, n)))
	counted := b.Input(inputCounted, graph.F32(n))
	hits := b.hits(logits, b.Slice(logits, 1, 0, n))
	own := b.Sum(b.Mul(b.Slice(near, 1, 0, n), b.Reshape(b.Input(inputOwn, graph.F32(n*n)), n, n)), 1)
	built.Figures = []figure{{"vectors", vectors}, {"hits", hits}, {"similarity", own}}
	b.tell(built, counted, hits, own)
	return nil
}
