package model

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"gputrain/graph"
	"gputrain/internal/caught"
)

// embed is the loss of vectors (van den Oord et al. 2018, arXiv:1807.03748): each query is to be nearest to its positive, of the candidates of all rows, which
// are their positives and then their negatives:
//
//	-log softmax(q . candidates / temperature) at the row's own positive
//
// A batch has for each row its query, its positive and so many negatives, one behind the other. A row may have fewer: those without a last token are no
// candidates.
//
// An update of several batches (Objective.Parted) needs the vectors of all of its rows first: a pass without gradients gives them, with the dropout of the
// update. Of them follow the loss L and dL/dv of each vector v, in float64. The graph of a batch then has
//
//	the sum over its rows of <dL/dv, v>, and of what that lacks to the loss of its queries
//
// which is the loss where the vectors are those of the first pass, and has its gradient: batches may be as small as a row is whole.
func init() {
	losses = append(losses, Loss{
		Name: "embed", Tag: "sentence-similarity", Counts: "rows", Group: 2, grows: negatives, Head: HeadVectors, Whole: true,
		Numbers: []number{above0(temperature), {Name: negatives, Wanted: "a whole number from 0 to 1000", Takes: func(v float64) bool {
			return v >= 0 && v <= 1000 && v == math.Trunc(v)
		}}},
		Form: "queries", Says: "a query, a positive and negatives",
		Sums: []string{"accuracy", "positive_similarity"}, Shown: []string{"accuracy", "positive_similarity"},
		derive: asTheyAre, inputs: embedInputs, build: buildEmbed, parted: func(l Loss) Loss {
			l.inputs, l.build = partedInputs, buildParted
			l.Ahead = &Ahead{pass: lookedVectors.Name, lays: inputSlopes, each: func(def Definition) int { return widthOf(def) + foundOfRows }}
			l.Ahead.of = func(numbers map[string]float64, seen Seen, _ map[string]float64) []float64 {
				return slopes(l.Group, numbers[temperature], seen)
			}
			return l
		},
	})
}

const (
	negatives = "negatives"
	// inputAbsent is f32 [candidates]: 0, or what makes one that is not there the farthest.
	inputAbsent = "absent"
	// inputSlopes is f32 [batch*(width+foundOfRows)] beside rows: dL/dv of each, and behind it what its query adds to the loss besides, whether its positive is
	// the nearest, and how near it is: 0 of rows that are no queries.
	inputSlopes = "slopes"
	foundOfRows = 3
)

// lookedVectors is the objective of the pass: its Built.Rows are vectors, [batch*(width+1)], with 1 behind each, or 0 of a row without tokens.
var lookedVectors = Loss{
	Name: "vectors", Counts: "rows", Group: 1, Head: HeadVectors, Drops: true,
	inputs: func(_ Objective, rows Rows) (in batchInputs) {
		there := make([]float32, rows.Count)
		for i, label := range rows.ends(&in).labels {
			if label != graph.IgnoreLabel {
				there[i] = 1
			}
		}
		in.Floats[inputCounted], in.Counts.Of = there, int64(rows.Count)
		return in
	},
	build: func(b *Builder, built *Built, vectors *graph.Value) error {
		n := b.batch
		all := b.Concat(1, vectors, b.Reshape(b.Input(inputCounted, graph.F32(n)), n, 1))
		built.Rows = b.Reshape(all, all.Type().Elements())
		b.scaled(built, b.Sum(vectors))
		return nil
	},
}

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

// partedInputs count queries, and leave the candidates to what is laid beside the rows.
func partedInputs(o Objective, rows Rows) batchInputs {
	in := embedInputs(o, rows)
	in.Floats = map[string][]float32{inputParts: in.Floats[inputParts], inputSlopes: rows.Beside[inputSlopes]}
	return in
}

func buildParted(b *Builder, built *Built, vectors *graph.Value) error {
	n, width := b.batch, vectors.Shape()[1]
	all := b.Reshape(b.Input(inputSlopes, graph.F32(n*(width+foundOfRows))), n, width+foundOfRows)
	near, found := b.Mul(vectors, b.Slice(all, 1, 0, width)), b.Slice(all, 1, width, foundOfRows)
	b.KeepF32(near, found)
	sums := b.Sum(found, 0)
	b.scaled(built, b.Add(b.Sum(near), b.Sum(b.Slice(sums, 0, 0, 1))))
	built.Sums, built.Figures = b.Slice(sums, 0, 1, foundOfRows-1), []figure{{"vectors", vectors}}
	return nil
}

// slopes are inputSlopes of all rows of an update, as many of which are a group: of their vectors.
func slopes(group int, temperature float64, seen Seen) []float64 {
	rows, width := len(seen.Rows), 0
	if rows > 0 {
		width = len(seen.Rows[0]) - 1
	}
	there := func(row int) bool { return seen.Rows[row][width] != 0 }
	var queries, candidates []int // rows; the positive of query i is candidate i
	for row := 0; row < rows; row += group {
		if there(row) && there(row+1) {
			queries, candidates = append(queries, row), append(candidates, row+1)
		}
	}
	for row := range rows {
		if row%group > 1 && there(row) {
			candidates = append(candidates, row)
		}
	}
	dot := func(a, b int) (sum float64) {
		for i, x := range seen.Rows[a][:width] {
			sum += float64(x) * float64(seen.Rows[b][i])
		}
		return sum
	}
	out := make([]float64, rows*(width+foundOfRows))
	of := func(row int) []float64 { return out[row*(width+foundOfRows):][:width+foundOfRows] }
	pull := make([][]float64, len(queries)) // dL/d(q . c) of each candidate
	each := func(n int, do func(i int)) {
		err := caught.Each(n, runtime.GOMAXPROCS(0), func(i int) error { do(i); return nil })
		if err != nil {
			panic(err) // a bug of ours
		}
	}
	each(len(queries), func(i int) {
		near := make([]float64, len(candidates))
		for j, c := range candidates {
			near[j] = dot(queries[i], c)
		}
		nearest, sum := slices.Max(near), 0.0
		pull[i] = make([]float64, len(near))
		for j, x := range near {
			pull[i][j] = math.Exp((x - nearest) / temperature)
			sum += pull[i][j]
		}
		for j := range near {
			pull[i][j] /= sum * temperature
		}
		pull[i][i] -= 1 / temperature
		found := of(queries[i])[width:]
		found[0], found[2] = (nearest-near[i])/temperature+math.Log(sum), near[i]
		if near[i] >= nearest {
			found[1] = 1
		}
	})
	add := func(to []float64, by float64, row int) {
		for i, x := range seen.Rows[row][:width] {
			to[i] += by * float64(x)
		}
	}
	each(len(queries), func(i int) {
		for j, c := range candidates {
			add(of(queries[i]), pull[i][j], c)
		}
	})
	each(len(candidates), func(j int) {
		for i, q := range queries {
			add(of(candidates[j]), pull[i][j], q)
		}
	})
	each(rows, func(row int) {
		for i, x := range seen.Rows[row][:width] {
			of(row)[width] -= of(row)[i] * float64(x)
		}
	})
	return out
}

// widthOf is the width of the vectors of def.
func widthOf(def Definition) int {
	params, embedding := BaseOf(def).Params(), families[def.Kind()].Embeddings[0]
	return params[slices.IndexFunc(params, func(p Param) bool { return p.Path == embedding })].Shape[1]
}
