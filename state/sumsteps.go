package state

import "maps"

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
