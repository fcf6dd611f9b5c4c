package tokenizer

import "math"

// never is the rank of two tokens that do not join.
const never = math.MaxInt32

// pairs looks up what two tokens make: an open hash table, as a map of Go takes several times as long.
type pairs struct {
	entries []pairEntry
	shift   uint8
}

type pairEntry struct {
	left, right  int32
	rank, joined int32 // rank is never where the place is free
}

// newPairs makes the table; of a pair that comes twice the later one counts.
func newPairs(merges []merge) pairs {
	bits := 4
	for 1<<bits < 2*len(merges) {
		bits++
	}
	p := pairs{entries: make([]pairEntry, 1<<bits), shift: uint8(64 - bits)}
	for i := range p.entries {
		p.entries[i].rank = never
	}
	for _, m := range merges {
		*p.place(m.left, m.right) = pairEntry{m.left, m.right, m.rank, m.joined}
	}
	return p
}

// place is where a pair is, or would be.
func (p *pairs) place(left, right int32) *pairEntry {
	key := uint64(uint32(left))<<32 | uint64(uint32(right))
	for i := key * 0x9E3779B97F4A7C15 >> p.shift; ; i++ {
		e := &p.entries[i&uint64(len(p.entries)-1)]
		if e.rank == never || e.left == left && e.right == right {
			return e
		}
	}
}

// look is the rank of a pair, never for one that does not join, and what it makes.
func (p *pairs) look(left, right int32) (rank, joined int32) {
	e := p.place(left, right)
	return e.rank, e.joined
}
