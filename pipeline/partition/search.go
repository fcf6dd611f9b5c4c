package partition

import (
	"math"
	"slices"
)

// searchLimit is the number of parts that search tries before it makes do with the best found so far: some tens of milliseconds.
const searchLimit = 200_000

// search looks through every cut for one whose slowest stage is faster than that of ends (nil, or above the memories, counts as endlessly
// slow), and returns the fastest, or ends where there is none.
func (b balance) search(ends []int) []int {
	s := search{balance: b, best: math.Inf(1), ends: ends, left: searchLimit, times: make([]float64, b.stages), bytes: make([]uint64, b.stages)}
	if ends != nil {
		if found := b.score(ends); found.over == 0 {
			s.best = found.slowest
		}
	}
	for _, u := range b.units {
		s.undone += float64(u.work())
	}
	s.extend(0)
	return s.ends
}

// search is a depth-first search over the ends of the parts, one after the other.
type search struct {
	balance
	best   float64 // time of the slowest stage of ends
	ends   []int
	left   int       // parts that may still be tried
	path   []int     // the ends of the parts chosen
	undone float64   // operations of the units not yet in a part
	times  []float64 // by stage, of the parts chosen
	bytes  []uint64
}

// extend tries every end of the next part, which begins with unit from.
func (s *search) extend(from int) {
	p, n := len(s.path), len(s.units)
	if p == s.parts {
		s.best, s.ends = slices.Max(s.times), slices.Clone(s.path)
		return
	}
	stage := p % s.stages
	power, begin := s.power[stage], from+1
	if p == s.parts-1 {
		begin = n // the last part takes the rest
	}
	for to := begin; to <= n-(s.parts-1-p) && s.left > 0; to++ {
		s.left--
		bytes := s.memory(from, to)
		if power.Memory > 0 && s.bytes[stage]+bytes > power.Memory {
			break // more units take more
		}
		compute, move := s.costOf(from, to, power)
		work := compute * power.FLOPS
		before := s.times[stage]
		s.times[stage] += compute + move
		s.bytes[stage] += bytes
		s.undone -= work
		s.path = append(s.path, to)
		if s.times[stage] < s.best && s.room() >= s.undone {
			s.extend(to)
		}
		s.path = s.path[:p]
		s.undone += work
		s.bytes[stage] -= bytes
		s.times[stage] = before
		if before+compute >= s.best {
			break
		}
	}
}

// room is the number of operations that the stages can take on until they are as slow as the best.
func (s *search) room() float64 {
	total := 0.0
	for i, t := range s.times {
		total += (s.best - t) * s.power[i].FLOPS
	}
	return total
}
