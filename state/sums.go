package state

import "fmt"

// The gradients of an update's microbatches are added up along one tree over their numbers, so that any replicas, with any number of
// microbatches each, get the same bits. A node of the tree is the sum over a Span. The sum of one microbatch is its gradient, with all
// shares of a parameter that the model reads in several places. Any other span is split behind p microbatches, where p is the largest power of two
// less than their number, and is left + right in f32, rounded to nearest even:
//
//	7 microbatches:  ((g0 + g1) + (g2 + g3)) + ((g4 + g5) + g6)
//
// A device computes microbatches in their order, and needs to hold no more partial sums than their number has binary digits.

// Span is some microbatches of an update: Count of them, from number First on.
type Span struct{ First, Count int }

// String is the span as a half-open interval.
func (s Span) String() string { return fmt.Sprintf("[%d,%d)", s.First, s.end()) }

func (s Span) end() int { return s.First + s.Count }

// children are the two nodes that a node of more than one microbatch is the sum of.
func (s Span) children() (left, right Span) {
	p := 1
	for 2*p < s.Count {
		p *= 2
	}
	return Span{s.First, p}, Span{s.First + p, s.Count - p}
}

// Share is what a replica computes of all microbatches of an update: shares differ by one microbatch at most, and where there are more replicas than
// microbatches some are empty.
func Share(microbatches, rank, replicas int) Span {
	first := rank * microbatches / replicas
	return Span{first, (rank+1)*microbatches/replicas - first}
}

// Nodes divides a span into the fewest nodes of the tree over all microbatches, in their order.
func (s Span) Nodes(microbatches int) []Span { return s.within(Span{0, microbatches}) }

// within are the nodes of the span at or below a node.
func (s Span) within(node Span) []Span {
	switch {
	case s.Count == 0 || node.end() <= s.First || s.end() <= node.First:
		return nil
	case s.First <= node.First && node.end() <= s.end():
		return []Span{node}
	}
	left, right := node.children()
	return append(s.within(left), s.within(right)...)
}

// isNode tells whether the span is a node of the tree over all microbatches.
func (s Span) isNode(microbatches int) bool {
	nodes := s.Nodes(microbatches)
	return len(nodes) == 1 && nodes[0] == s
}

// Counter adds up nodes of the tree that come in the order of their microbatches, as a binary counter adds ones: it keeps those that wait for
// their other half.
type Counter struct {
	Microbatches int    // of an update
	Held         []Span // the oldest first
}

// Add takes the next node, and says how many of those held are added to it, one after another from the newest on: held + sum. What comes of it is then held.
func (c *Counter) Add(next Span) (merged int) {
	for n := len(c.Held); n > 0; n-- {
		left := c.Held[n-1]
		sum := Span{left.First, left.Count + next.Count}
		if left.end() != next.First || !sum.isNode(c.Microbatches) {
			break
		}
		next, merged = sum, merged+1
	}
	c.Held = append(c.Held[:len(c.Held)-merged], next)
	return merged
}

// Fold is the sum over all microbatches of nodes that together cover them, given in their order; add makes left + right.
func Fold[T any](microbatches int, nodes []Span, of func(i int) T, add func(left, right T) T) T {
	c := Counter{Microbatches: microbatches}
	var held []T
	for i, node := range nodes {
		sum := of(i)
		for range c.Add(node) {
			last := len(held) - 1
			sum, held = add(held[last], sum), held[:last]
		}
		held = append(held, sum)
	}
	return held[0]
}
