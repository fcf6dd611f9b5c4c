package state

import (
	"fmt"
	"maps"
)

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

// counter adds up nodes of the tree that come in the order of their microbatches, as a binary counter adds ones: it keeps those that wait for
// their other half.
type counter struct {
	Microbatches int    // of an update
	Held         []Span // the oldest first
}

// Add takes the next node, and says how many of those held are added to it, one after another from the newest on: held + sum. What comes of it is then held.
func (c *counter) Add(next Span) (merged int) {
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
	c := counter{Microbatches: microbatches}
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

// sumStep is what happens to the gradient of a microbatch: the newest of the sums held are added to it, from where on it is held; the last is where it
// was made.
type sumStep struct {
	held, merged int
	last         bool
}

// sumSteps are the steps of a share that is made of these nodes of the tree. There are no more kinds of them than the square of the digits of the
// microbatches' number, and no list has an entry for each microbatch.
type sumSteps struct {
	nodes   []Span
	inPlace int // microbatches that are added up in sequence instead
}

// of is the step of a microbatch of the share.
func (s sumSteps) of(microbatch int) (step sumStep) {
	for i, node := range s.nodes {
		if microbatch >= node.Count {
			microbatch -= node.Count
			continue
		}
		step = sumStep{held: i, last: i == len(s.nodes)-1 && microbatch == node.Count-1}
		for node = (Span{0, node.Count}); node.Count > 1; {
			left, right := node.children()
			if microbatch < right.First {
				node, step.merged = left, 0 // the sum of which it is the end waits for the right one
			} else {
				node, step.merged = right, step.merged+1
				step.held++
			}
		}
		break
	}
	return step
}

// like are the microbatches of one step: how many they are, and the first.
type like struct{ count, first int }

func (l like) and(o like) like { return like{l.count + o.count, min(l.first, o.first)} }

// kinds are the steps that there are.
func (s sumSteps) kinds() map[sumStep]like {
	if n := s.inPlace; n > 0 {
		kinds := map[sumStep]like{{}: {1, 0}, {last: true}: {1, n - 1}}
		if n > 2 {
			kinds[sumStep{held: 1}] = like{n - 2, 1}
		}
		return kinds
	}
	kinds, known := map[sumStep]like{}, map[int]map[sumStep]like{}
	from := 0
	for i, node := range s.nodes {
		for step, l := range stepsOf(node.Count, known) {
			step.held, l.first = step.held+i, l.first+from
			add(kinds, step, l)
		}
		if from += node.Count; i == len(s.nodes)-1 {
			end := s.of(from - 1)
			move(kinds, sumStep{end.held, end.merged, false}, end, from-1)
		}
	}
	return kinds
}

// stepsOf are the steps of a node of so many microbatches by itself.
func stepsOf(count int, known map[int]map[sumStep]like) map[sumStep]like {
	if count == 1 {
		return map[sumStep]like{{}: {1, 0}}
	}
	if known[count] != nil {
		return known[count]
	}
	left, right := Span{0, count}.children()
	kinds := maps.Clone(stepsOf(left.Count, known))
	for step, l := range stepsOf(right.Count, known) {
		step.held, l.first = step.held+1, l.first+right.First
		add(kinds, step, l)
	}
	end := sumSteps{nodes: []Span{{0, count}}}.of(count - 1)
	move(kinds, sumStep{end.held, end.merged - 1, false}, sumStep{end.held, end.merged, false}, count-1) // the left node is added besides
	known[count] = kinds
	return kinds
}

func add(kinds map[sumStep]like, step sumStep, l like) {
	if had, ok := kinds[step]; ok {
		l = l.and(had)
	}
	kinds[step] = l
}

// move gives a microbatch that is the last of a step another one.
func move(kinds map[sumStep]like, from, to sumStep, microbatch int) {
	if l := kinds[from]; l.count == 1 {
		delete(kinds, from)
	} else {
		kinds[from] = like{l.count - 1, l.first}
	}
	add(kinds, to, like{1, microbatch})
}

// trees is how many sums are held at most.
func (s sumSteps) trees() (most int) {
	if s.inPlace > 0 {
		return 0
	}
	for step := range s.kinds() {
		most = max(most, step.held)
	}
	return most
}
