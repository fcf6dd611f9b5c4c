package timeline

import (
	"cmp"
	"slices"
	"time"
)

// stretch is a stretch of time; empty where it does not end after its start.
type stretch struct{ start, end time.Duration }

func (s stretch) length() time.Duration { return max(0, s.end-s.start) }

// within is what lies in both.
func (s stretch) within(other stretch) stretch {
	return stretch{max(s.start, other.start), min(s.end, other.end)}
}

type stretches []stretch

// merged is the same times in order, none twice.
func (all stretches) merged() stretches {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b stretch) int { return cmp.Compare(a.start, b.start) })
	out := sorted[:0]
	for _, s := range sorted {
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// cut is what lies in a stretch.
func (all stretches) cut(to stretch) stretches {
	var out stretches
	for _, s := range all {
		if in := s.within(to); in.length() > 0 {
			out = append(out, in)
		}
	}
	return out
}

// length is the sum of all lengths.
func (all stretches) length() (sum time.Duration) {
	for _, s := range all {
		sum += s.length()
	}
	return sum
}
