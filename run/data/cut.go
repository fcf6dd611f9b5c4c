package data

import "fmt"

// textWalk takes the windows of a text in a shuffled order. In epoch e > 0 they begin up to a window later, so that they are cut
// elsewhere; the last one is moved to end with the text.
type textWalk struct {
	tokens  *Tokens
	size    int
	windows uint64
	seed    uint64
}

func (t *Tokens) Walk(context int, seed uint64) (Walk, error) {
	if t.Len() <= int64(context) {
		return nil, fmt.Errorf("%d tokens found, want at least %d (a context of %d and one more)", t.Len(), context+1, context)
	}
	return &textWalk{tokens: t, size: context, windows: uint64(t.Len()-1) / uint64(context), seed: seed}, nil
}

func (w *textWalk) Length(uint64) uint64 { return w.windows }

func (w *textWalk) Fill(b *Batch, row int, s State) error {
	o := newOrder(w.windows, w.seed, s.Epoch)
	size := int64(w.size)
	start := int64(o.at(s.Position)) * size
	if s.Epoch > 0 {
		start += int64(mix(o.key) % uint64(size))
	}
	return b.cut(w.tokens, row, min(start, w.tokens.Len()-size-1), w.size)
}

// textShelf has the windows of a text from its first token on; the last one is shorter.
type textShelf struct {
	tokens *Tokens
	size   int64
}

func (t *Tokens) Shelf(context int) (Shelf, error) {
	if t.Len() < 2 {
		return nil, fmt.Errorf("%d tokens found, want at least 2", t.Len())
	}
	return textShelf{t, int64(context)}, nil
}

func (s textShelf) Windows() int64 { return (s.tokens.Len() - 1 + s.size - 1) / s.size }

func (s textShelf) Fill(b *Batch, row int, i int64) error {
	start := i * s.size
	return b.cut(s.tokens, row, start, int(min(s.size, s.tokens.Len()-1-start)))
}
