package data

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// When an epoch of a mixture is over: never, as each source begins again when it is used up, or with the first or the last that is used up.
const (
	endRestart        = "restart"
	endFirstExhausted = "first_exhausted"
	endAllExhausted   = "all_exhausted"
)

// Ends are all of them; the first is the one that is meant where none is named.
var Ends = []string{endRestart, endFirstExhausted, endAllExhausted}

// blockSize is the number of windows in which the shares of a mixture are exact.
const blockSize = 1000

// Mixture is several sources as one. Every 1000 windows have the windows of each source in proportion to its weight, in an order drawn
// from (seed, epoch, number of the thousand); each source has a shuffled order of its own. So the window at (seed, epoch, position) is
// found directly here, too.
type Mixture struct {
	sources []Source
	counts  []int // windows of each in a block
	end     string
	vocab   int
}

// NewMixture mixes sources by weights. end says when an epoch of the mixture is over.
func NewMixture(sources []Source, weights []float64, end string) (*Mixture, error) {
	m := &Mixture{sources: sources, end: end}
	sum := 0.0
	for i, w := range weights {
		if !(w > 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("source %d: weight %v, want more than 0", i, w)
		}
		sum += w
	}
	for _, s := range sources {
		m.vocab = max(m.vocab, s.Vocab())
	}
	m.counts = shares(weights, sum)
	for i, n := range m.counts {
		if n == 0 {
			return nil, fmt.Errorf("source %d: weight %v of %v: less than one of %d windows", i, weights[i], sum, blockSize)
		}
	}
	return m, nil
}

// shares parts a block by weights: what is left over by rounding down goes to the largest remainders.
func shares(weights []float64, sum float64) []int {
	counts, left := make([]int, len(weights)), blockSize
	order, rest := make([]int, len(weights)), make([]float64, len(weights))
	for i, w := range weights {
		exact := w / sum * blockSize
		counts[i], order[i] = int(exact), i
		rest[i] = exact - float64(counts[i])
		left -= counts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for i := range left {
		counts[order[i%len(order)]]++
	}
	return counts
}

// Vocab is one more than the largest token id that can come.
func (m *Mixture) Vocab() int { return m.vocab }

// turn is one window of a block: its source, and how many of that source stand before it in the block.
type turn struct{ source, before int }

type mixtureWalk struct {
	*Mixture
	walks  []Walk
	seed   uint64
	block  []turn // the block used last
	epoch  uint64 // its epoch
	number uint64 // and its number
	ended  uint64 // the epoch whose length is known
	size   uint64 // that length; 0: none is known
}

func (m *Mixture) Walk(context int, seed uint64) (Walk, error) {
	w := &mixtureWalk{Mixture: m, seed: seed}
	for i, s := range m.sources {
		one, err := s.Walk(context, mix(seed^mix(uint64(i)+1)))
		if err != nil {
			return nil, fmt.Errorf("source %d: %w", i, err)
		}
		w.walks = append(w.walks, one)
	}
	return w, nil
}

// turns is a block: all windows of source 0, then of source 1 and so on, permuted.
func (w *mixtureWalk) turns(epoch, number uint64) []turn {
	if w.block != nil && w.epoch == epoch && w.number == number {
		return w.block
	}
	var sources []int
	for source, n := range w.counts {
		for range n {
			sources = append(sources, source)
		}
	}
	order := newOrder(blockSize, mix(w.seed^mix(epoch)), number)
	seen := make([]int, len(w.counts))
	w.block = make([]turn, blockSize)
	for i := range w.block {
		source := sources[order.at(uint64(i))]
		w.block[i] = turn{source, seen[source]}
		seen[source]++
	}
	w.epoch, w.number = epoch, number
	return w.block
}

// length is how many windows come until the first source is used up, or the last. A mixture that restarts its sources has one epoch
// without an end.
func (w *mixtureWalk) Length(epoch uint64) uint64 {
	if w.end == endRestart {
		return math.MaxUint64
	}
	if w.size > 0 && w.ended == epoch {
		return w.size
	}
	size := uint64(0)
	for source, one := range w.walks {
		last := one.Length(0) - 1 // an epoch of a source always has as many
		block, before := last/uint64(w.counts[source]), int(last%uint64(w.counts[source]))
		n := block*blockSize + uint64(slices.Index(w.turns(epoch, block), turn{source, before})) + 1
		if size == 0 || (w.end == endFirstExhausted) == (n < size) {
			size = n
		}
	}
	w.ended, w.size = epoch, size
	return size
}

// fill finds the source whose turn it is, and its window. A source that is used up within an epoch of the mixture begins another of its
// own.
func (w *mixtureWalk) Fill(b *Batch, row int, s State) error {
	t := w.turns(s.Epoch, s.Position/blockSize)[s.Position%blockSize]
	one := w.walks[t.source]
	index := s.Position/blockSize*uint64(w.counts[t.source]) + uint64(t.before)
	n := one.Length(0)
	if err := one.Fill(b, row, State{Epoch: s.Epoch<<32 + index/n, Position: index % n}); err != nil {
		return fmt.Errorf("source %d: %w", t.source, err)
	}
	return nil
}

// mixtureShelf has the windows of all sources, one source after the other.
type mixtureShelf []Shelf

func (m *Mixture) Shelf(context int) (Shelf, error) {
	var out mixtureShelf
	for i, s := range m.sources {
		one, err := s.Shelf(context)
		if err != nil {
			return nil, fmt.Errorf("source %d: %w", i, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func (s mixtureShelf) Windows() (n int64) {
	for _, one := range s {
		n += one.Windows()
	}
	return n
}

func (s mixtureShelf) Fill(b *Batch, row int, i int64) error {
	for _, one := range s {
		if i < one.Windows() {
			return one.Fill(b, row, i)
		}
		i -= one.Windows()
	}
	return fmt.Errorf("data: mixture: window %d: outside of [0, %d)", i, s.Windows())
}
