package tokenizer

import "hash/maphash"

// cache remembers what pieces became: most words of a text come again and again. It has two places a hash and forgets the older.
type cache struct {
	seed    maphash.Seed
	entries []cached
	used    int
}

type cached struct {
	piece string
	ids   []int32
}

// Limits of the cache of one goroutine.
const (
	longestCached = 64      // bytes of a piece
	firstEntries  = 1 << 8  // places to begin with; it grows as pieces come
	mostEntries   = 1 << 16 // some 10 MB
)

func newCache() cache {
	return cache{seed: maphash.MakeSeed(), entries: make([]cached, firstEntries)}
}

// place is the first of the two places of a piece.
func (c *cache) place(piece string) uint64 {
	return maphash.String(c.seed, piece) & uint64(len(c.entries)-1) &^ 1
}

// look is what a piece became.
func (c *cache) look(piece string) ([]int32, bool) {
	i := c.place(piece)
	if e := &c.entries[i]; e.piece == piece {
		return e.ids, true
	}
	if e := &c.entries[i+1]; e.piece == piece {
		return e.ids, true
	}
	return nil, false
}

// keep remembers a piece.
func (c *cache) keep(piece string, ids []int32) {
	if c.used++; c.used > len(c.entries)/2 && len(c.entries) < mostEntries {
		c.grow()
	}
	c.put(cached{string(append([]byte(nil), piece...)), append([]int32(nil), ids...)})
}

func (c *cache) put(e cached) {
	i := c.place(e.piece)
	c.entries[i+1], c.entries[i] = c.entries[i], e
}

// grow makes room for four times as many pieces.
func (c *cache) grow() {
	old := c.entries
	c.entries, c.used = make([]cached, 4*len(old)), 0
	for _, e := range old {
		if e.piece != "" {
			c.put(e)
			c.used++
		}
	}
}
