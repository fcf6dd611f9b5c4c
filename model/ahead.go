package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/graph"
	"gputrain/internal/formats"
)

// Ahead is what a loss finds of all rows of an update before the first backward pass of it: by a forward pass of the network as it is then, and of the
// reference.
type Ahead struct {
	// Mismatched: that pass is of each prompt with the completion of the row before, the first with that of the last; else of the rows as they are.
	Mismatched bool
	// Memory are numbers that go on from update to update, by name. Evaluations use them as they are, without a pass.
	Memory []string

	pass string                   // the objective of that pass; "": looked
	lays string                   // the input that it makes of them, as many numbers of each row as of any other
	each func(def Definition) int // how many; nil: one
	of   func(numbers map[string]float64, seen Seen, memory map[string]float64) []float64
}

// Seen is what the pass gives of all rows of an update, in its order. Learning: memory is to take them in.
type Seen struct {
	Rows     [][]float32
	Counts   []bool // false for rows without a completion, which evaluations may have
	Learning bool
}

// own and reference are the log-probabilities of a row's completion that looked gives.
func (s Seen) own(row int) float64       { return float64(s.Rows[row][0]) }
func (s Seen) reference(row int) float64 { return float64(s.Rows[row][1]) }

// net are those of the network less those of the reference, of the rows that count.
func (s Seen) net() (net []float64) {
	for i, counts := range s.Counts {
		if counts {
			net = append(net, s.own(i)-s.reference(i))
		}
	}
	return net
}

// InputMismatched is f32 [batch] beside rows: the log-probabilities of mismatched completions by a reference that is not part of the graph.
const InputMismatched = "reference_mismatched"

// looked is the objective of the pass: its Built.Rows are log-probabilities of completions, [batch*2]: the network's and the reference's.
var looked = Loss{
	Name: "log-probabilities", Counts: "rows", Group: 1, Reference: true,
	inputs: func(_ Objective, rows Rows) batchInputs {
		in := completionInputs(rows)
		in.Floats[InputReference] = rows.Beside[InputReference]
		return in
	},
	build: func(b *Builder, built *Built, losses *graph.Value) error {
		own, reference, err := b.bothOf(losses)
		if err != nil {
			return err
		}
		b.scaled(built, b.Sum(own))
		n := own.Shape()[0]
		built.Rows = b.Reshape(b.Concat(1, b.Reshape(own, n, 1), b.Reshape(reference, n, 1)), 2*n)
		return nil
	},
}

// lookedTokens is the objective of the pass before the first of several updates that completions which were drawn take part in: its Built.Rows are the
// log-probabilities of all labels, [batch*seq], which the updates read as InputOld.
var lookedTokens = Loss{
	Name: "log-probabilities of labels", Counts: "rows", Group: 1, Numbers: []number{above0(temperature)},
	inputs: func(_ Objective, rows Rows) batchInputs {
		return batchInputs{Tokens: rows.Tokens, Labels: rows.Labels, Counts: Counts{Of: int64(rows.Count)}}
	},
	build: func(b *Builder, built *Built, losses *graph.Value) error {
		built.Rows = b.Reshape(b.Apply("neg", losses), b.batch*b.seq)
		b.scaled(built, b.Sum(losses))
		return nil
	},
}

// Ahead is the objective of the pass before an update, whose model.Built.Rows Lay reads, or updates as InputOld; false: there is none.
func (o Objective) Ahead() (of Objective, looks bool) {
	switch {
	case o.ReadsOld():
		return Objective{Loss: lookedTokens.Name, Numbers: map[string]float64{temperature: o.Numbers[temperature]}}, true
	case o.Row().Ahead != nil:
		return Objective{Loss: cmp.Or(o.Row().Ahead.pass, looked.Name)}, true
	}
	return Objective{}, false
}

// ReadsOld tells whether the loss reads log-probabilities of completions as they were before the first update with them: InputOld.
func (o Objective) ReadsOld() bool {
	return o.Row().Form == formats.Prompts && o.Numbers[onPolicy] == 0
}

// Rows are what the pass before an update is of. before is the row before the first in the update; nil: the last of these.
func (a Ahead) Rows(rows Rows, before *Rows) (Rows, error) {
	if !a.Mismatched {
		return rows, nil
	}
	seq := len(rows.Tokens) / max(1, rows.Count)
	out := Rows{Tokens: make([]int32, len(rows.Tokens)), Labels: slices.Repeat([]int32{graph.IgnoreLabel}, len(rows.Labels)), Count: rows.Count}
	if given := rows.Beside[InputMismatched]; given != nil {
		out.Beside = map[string][]float32{InputReference: given}
	}
	var learned []int // rows that count
	for row := range rows.Count {
		if _, end := completionOf(rows, row); end > 0 {
			learned = append(learned, row)
		}
	}
	if len(learned) == 0 {
		return out, nil
	}
	from, last := rows, learned[len(learned)-1]
	if before != nil {
		if _, end := completionOf(*before, 0); end > 0 {
			from, last = *before, 0
		}
	}
	for _, row := range learned {
		at, _ := completionOf(rows, row)
		begin, end := completionOf(from, last)
		if n := at + end - begin; n > seq {
			return out, fmt.Errorf("batch: row %d: found %d tokens of its prompt and the completion of the row before it, wanted at most %d: "+
				"a window and one token more", row, n+1, seq+1)
		}
		prompt := rows.Tokens[row*seq:][:at+1]
		copy(out.Tokens[row*seq:], prompt)
		copy(out.Tokens[row*seq+len(prompt):], from.Tokens[last*seq:][begin+1:end])
		copy(out.Labels[row*seq+at:], from.Labels[last*seq:][begin:end])
		from, last = rows, row
	}
	return out, nil
}

// Lengths are the tokens of the prompt and of the completion of each row, as Rows takes them; 0 where a row has no completion.
func (a Ahead) Lengths(rows Rows) (all [][2]int) {
	for row := range rows.Count {
		begin, end := completionOf(rows, row)
		all = append(all, [2]int{min(1, end) * (begin + 1), end - begin})
	}
	return all
}

// completionOf are the labels of a row from the first to the last that counts; end is 0 where none does.
func completionOf(rows Rows, row int) (begin, end int) {
	seq := len(rows.Tokens) / max(1, rows.Count)
	for i, label := range rows.Labels[row*seq:][:seq] {
		if label == graph.IgnoreLabel {
			continue
		}
		if end == 0 {
			begin = i
		}
		end = i + 1
	}
	return begin, end
}

// Lay makes the numbers of all rows that the loss reads beside them, by name, and what is remembered then: memory itself where something is not finite.
func (a Ahead) Lay(numbers map[string]float64, seen Seen, memory map[string]float64) (laid map[string][]float32, remembered map[string]float64) {
	remembered = maps.Clone(memory)
	if remembered == nil && a.Memory != nil {
		remembered = map[string]float64{}
	}
	found := a.of(numbers, seen, remembered)
	values := make([]float32, len(found))
	for i, v := range found {
		values[i] = float32(v)
	}
	for _, v := range remembered {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			remembered = memory
		}
	}
	return map[string][]float32{a.lays: values}, remembered
}

// forEach is one number for n rows.
func forEach(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// Beside are the numbers that rows must have beside tokens, by name: how many of each row of seq tokens. laid tells whether also those that Ahead makes.
func (o Objective) Beside(def Definition, seq int, laid bool) map[string]int {
	row, all := o.Row(), map[string]int{}
	if row.beside != nil {
		maps.Copy(all, row.beside(o, len(AdapterParams(def)) > 0 || Refers(def), seq))
	}
	if o.ReadsReference(def) {
		all[InputReference] = 1
		if row.Ahead != nil && row.Ahead.Mismatched {
			all[InputMismatched] = 1
		}
	}
	if laid && row.Ahead != nil {
		all[row.Ahead.lays] = 1
		if row.Ahead.each != nil {
			all[row.Ahead.lays] = row.Ahead.each(def)
		}
	}
	for name := range all {
		all[name] *= o.PerWindow(seq)
	}
	return all
}
