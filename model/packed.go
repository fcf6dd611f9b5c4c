package model

import (
	"fmt"
	"slices"

	"gputrain/graph"
)

// Inputs of graphs whose windows have several completions (Objective.Packed), f32.
const (
	inputPlaces = "places"          // [batch*seq]: of each label, the place in its window of the completion that it is of; -1 for none
	inputCount  = "numbered_places" // [PerWindow(seq)]: 0, 1, 2 and so on
)

// mostPlaces bounds the completions of a window: a sum over the labels of each reads all labels of the window.
const mostPlaces = 128

// PerWindow is how many completions a window of seq tokens has room for; 1 where each is a window of its own.
func (o Objective) PerWindow(seq int) int {
	if !o.Packed {
		return 1
	}
	return max(2, min(mostPlaces, seq/4&^1))
}

// spans are the labels of completions, with those of the prompts before them, as they lie in all labels: PerWindow of each window, of which the last may be
// empty. Where they are packed each is a document, and begins at position 0; what stands behind the last that there is room for goes with it.
func (r Rows) spans() (all [][2]int) {
	seq := len(r.Tokens) / max(1, r.Count)
	for row := range r.Count {
		from, first := row*seq, len(all)
		for i := from + 1; i < (row+1)*seq && len(all)-first+1 < r.perWindow && r.Positions != nil; i++ {
			if r.Positions[i] == 0 {
				all, from = append(all, [2]int{from, i}), i
			}
		}
		all = append(all, [2]int{from, (row + 1) * seq})
		for len(all)-first < r.perWindow {
			all = append(all, [2]int{})
		}
	}
	return all
}

// overfull refuses a window of more completions than it has room for.
func (r Rows) overfull() error {
	seq := len(r.Tokens) / max(1, r.Count)
	for i, span := range r.spans() {
		for at := span[0] + 1; at < span[1] && r.perWindow > 1 && r.Positions != nil; at++ {
			if r.Positions[at] == 0 && slices.ContainsFunc(r.Labels[at:span[1]], func(label int32) bool { return label != graph.IgnoreLabel }) {
				return fmt.Errorf("batch: row %d: found more completions than %d, wanted at most so many in a window of %d tokens", i/r.perWindow, r.perWindow, seq)
			}
		}
	}
	return nil
}

// place lays what a graph of packed completions reads beside their labels.
func (r Rows) place(into map[string][]float32) {
	if r.perWindow <= 1 {
		return
	}
	places, numbers := make([]float32, len(r.Tokens)), make([]float32, r.perWindow)
	for i := range places {
		places[i] = -1
	}
	for i, span := range r.spans() {
		numbers[i%r.perWindow] = float32(i % r.perWindow)
		for at := span[0]; at < span[1]; at++ {
			places[at] = numbers[i%r.perWindow]
		}
	}
	into[inputPlaces], into[inputCount] = places, numbers
}

// completions is how many a batch has room for.
func (b *Builder) completions() int { return b.batch * b.o.Objective.PerWindow(b.seq) }

// ofEach are the sums of values [batch*seq] over the labels of each completion, [completions].
func (b *Builder) ofEach(values *graph.Value) *graph.Value {
	n := b.o.Objective.PerWindow(b.seq)
	if n == 1 {
		return b.Sum(b.Reshape(values, b.batch, b.seq), 1)
	}
	places := b.Reshape(b.Input(inputPlaces, graph.F32(b.batch*b.seq)), b.batch, 1, b.seq)
	own := b.Apply("equal", places, b.Reshape(b.Input(inputCount, graph.F32(n)), n, 1))
	return b.Reshape(b.Sum(b.Mul(own, b.Reshape(values, b.batch, 1, b.seq)), 2), b.batch*n)
}

// ofPairs are the sums of values [batch*seq] over the labels of the completions of each pair, [pairs, 2].
func (b *Builder) ofPairs(values *graph.Value) *graph.Value {
	if b.o.Objective.Packed {
		return b.Reshape(b.ofEach(values), b.completions()/2, 2)
	}
	return b.Sum(b.Reshape(values, b.batch/2, 2, b.seq), 2)
}

// ofChosen is the sum of values [batch*seq] over the labels of chosen completions.
func (b *Builder) ofChosen(values *graph.Value) *graph.Value {
	if b.o.Objective.Packed {
		return b.Sum(b.Slice(b.ofPairs(values), 1, 0, 1))
	}
	return b.Sum(b.Slice(b.Reshape(values, b.batch/2, 2, b.seq), 1, 0, 1))
}
