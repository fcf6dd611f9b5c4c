package tokenizer

import "math"

// scanned is the number of symbols up to which the lowest rank is looked for from end to end: words are short.
const scanned = 48

// join joins symbols until no pair is left that does.
func (e *encoder) join(all []symbol) []symbol {
	if len(all) < 2 {
		return all
	}
	p := &e.model.pairs
	for i := range len(all) - 1 {
		all[i].rank, _ = p.look(all[i].id, all[i+1].id)
	}
	all[len(all)-1].rank = never
	if len(all) <= scanned {
		return joinShort(p, all)
	}
	return e.joinLong(p, all)
}

func joinShort(p *pairs, all []symbol) []symbol {
	for {
		at, lowest := 0, int32(never)
		for i := range all {
			if all[i].rank < lowest {
				at, lowest = i, all[i].rank
			}
		}
		if lowest == never {
			return all
		}
		_, all[at].id = p.look(all[at].id, all[at+1].id)
		all[at].size += all[at+1].size
		all = append(all[:at+1], all[at+2:]...)
		all[at].rank = never
		if at+1 < len(all) {
			all[at].rank, _ = p.look(all[at].id, all[at+1].id)
		}
		if at > 0 {
			all[at-1].rank, _ = p.look(all[at-1].id, all[at].id)
		}
	}
}

// joinLong keeps the pairs in a heap by rank and place, so that its time grows with n log n.
func (e *encoder) joinLong(p *pairs, all []symbol) []symbol {
	h, links := e.heap[:0], e.links[:0]
	for i, s := range all {
		if links = append(links, link{int32(i - 1), int32(i + 1)}); s.rank != never {
			h.push(uint64(s.rank)<<32 | uint64(i))
		}
	}
	links[len(all)-1].next = none
	rank := func(i int32) {
		all[i].rank = never
		if next := links[i].next; next != none {
			if all[i].rank, _ = p.look(all[i].id, all[next].id); all[i].rank != never {
				h.push(uint64(all[i].rank)<<32 | uint64(i))
			}
		}
	}
	for len(h) > 0 {
		top := h.pop()
		at := int32(uint32(top))
		if all[at].size == 0 || all[at].rank != int32(top>>32) {
			continue // joined since
		}
		right := links[at].next
		_, all[at].id = p.look(all[at].id, all[right].id)
		all[at].size += all[right].size
		all[right].size = 0
		if links[at].next = links[right].next; links[at].next != none {
			links[links[at].next].previous = at
		}
		rank(at)
		if links[at].previous != none {
			rank(links[at].previous)
		}
	}
	e.heap, e.links = h, links
	kept := all[:0]
	for _, s := range all {
		if s.size > 0 {
			kept = append(kept, s)
		}
	}
	return kept
}

// link has the neighbours of a symbol that is still there.
type link struct{ previous, next int32 }

// ranked is a heap: it has the least number on top.
type ranked []uint64

func (h *ranked) push(x uint64) {
	all := append(*h, x)
	i := len(all) - 1
	for i > 0 && all[(i-1)/2] > x {
		all[i] = all[(i-1)/2]
		i = (i - 1) / 2
	}
	all[i] = x
	*h = all
}

func (h *ranked) pop() uint64 {
	all := *h
	top, x := all[0], all[len(all)-1]
	all = all[:len(all)-1]
	*h = all
	i := 0
	for {
		child := 2*i + 1
		if child >= len(all) {
			break
		}
		if child+1 < len(all) && all[child+1] < all[child] {
			child++
		}
		if all[child] >= x {
			break
		}
		all[i] = all[child]
		i = child
	}
	if len(all) > 0 {
		all[i] = x
	}
	return top
}

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
