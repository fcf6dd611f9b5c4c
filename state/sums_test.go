package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// written is the sum over microbatches, with its brackets, as replicas with balanced shares make it.
func written(microbatches, replicas int) string {
	add := func(left, right string) string { return "(" + left + "+" + right + ")" }
	var nodes []Span
	var sums []string
	for rank := range replicas {
		share := Share(microbatches, rank, replicas)
		counter := counter{Microbatches: microbatches}
		var held []string
		for i := share.First; i < share.end(); i++ {
			sum := fmt.Sprint(i)
			for range counter.Add(Span{i, 1}) {
				sum, held = add(held[len(held)-1], sum), held[:len(held)-1]
			}
			held = append(held, sum)
		}
		nodes, sums = append(nodes, counter.Held...), append(sums, held...)
	}
	return Fold(microbatches, nodes, func(i int) string { return sums[i] }, add)
}

// The tree has the shape that its description gives.
func TestTreeOfSums(t *testing.T) {
	for n, want := range map[int]string{
		1: "0", 2: "(0+1)", 3: "((0+1)+2)", 4: "((0+1)+(2+3))", 7: "(((0+1)+(2+3))+((4+5)+6))",
	} {
		assert.Equal(t, want, written(n, 1))
	}
}

// Any replicas add up the same tree, each after nodes of it that are as few as can be.
func TestReplicasShareTheTree(t *testing.T) {
	for microbatches := 1; microbatches <= 33; microbatches++ {
		want := written(microbatches, 1)
		for replicas := 1; replicas <= microbatches+2; replicas++ {
			assert.Equal(t, want, written(microbatches, replicas), "%d microbatches, %d replicas", microbatches, replicas)
			next := 0
			for rank := range replicas {
				share := Share(microbatches, rank, replicas)
				assert.Equal(t, next, share.First)
				assert.Contains(t, []int{microbatches / replicas, (microbatches + replicas - 1) / replicas}, share.Count)
				next = share.end()
				counter := counter{Microbatches: microbatches}
				for i := range share.Count {
					counter.Add(Span{share.First + i, 1})
				}
				assert.Equal(t, share.Nodes(microbatches), counter.Held)
			}
			assert.Equal(t, microbatches, next)
		}
	}
}

// One device holds a partial sum for each time that the microbatches can be halved.
func TestPartialSumsHeld(t *testing.T) {
	for microbatches, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2, 7: 2, 8: 3, 15: 3, 16: 4, 64: 6} {
		steps, remain := Job{Config{Microbatches: microbatches}}.summed()
		assert.Equal(t, want, steps.trees(), microbatches)
		assert.Equal(t, []Span{{0, microbatches}}, remain)
		assert.Zero(t, Job{Config{Microbatches: microbatches, Accumulation: AccumulateSequence}}.PartialSums())
	}
}
