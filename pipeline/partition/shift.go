package partition

import "slices"

// score orders cuts of several parts a stage; the smaller is the better, earlier fields first.
type score struct {
	over    uint64  // bytes above the stages' memories
	slowest float64 // time of the slowest stage
	squares float64 // sum over the parts of the squares of their times
}

func (s score) less(o score) bool {
	switch {
	case s.over != o.over:
		return s.over < o.over
	case s.slowest != o.slowest:
		return s.slowest < o.slowest
	}
	return s.squares < o.squares
}

func (b balance) score(ends []int) score {
	var s score
	times, bytes := make([]float64, b.stages), make([]uint64, b.stages)
	from := 0
	for p, to := range ends {
		t := b.seconds(p, from, to)
		times[p%b.stages] += t
		bytes[p%b.stages] += b.memory(from, to)
		s.squares += t * t
		from = to
	}
	s.slowest = slices.Max(times)
	for i, p := range b.power {
		if p.Memory > 0 && bytes[i] > p.Memory {
			s.over += bytes[i] - p.Memory
		}
	}
	return s
}

// shift improves ends in place: cuts i to j move together by one unit either way, which takes a unit from one part and gives one to another
// and leaves the sizes between as they are, until no such move makes the score better.
func (b balance) shift(ends []int) {
	if ends == nil {
		return
	}
	cuts := ends[:len(ends)-1] // the last end is that of the model
	best := b.score(ends)
	for moved := true; moved; {
		moved = false
		for i := range cuts {
			for j := i; j < len(cuts); j++ {
				for _, by := range []int{-1, 1} {
					slide(cuts[i:j+1], by)
					if ascending(ends) {
						if s := b.score(ends); s.less(best) {
							best, moved = s, true
							continue
						}
					}
					slide(cuts[i:j+1], -by)
				}
			}
		}
	}
}

func slide(cuts []int, by int) {
	for i := range cuts {
		cuts[i] += by
	}
}

// ascending tells whether every part has a unit.
func ascending(ends []int) bool {
	last := 0
	for _, e := range ends {
		if e <= last {
			return false
		}
		last = e
	}
	return true
}
