package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// After is the text behind tokens that others put before it.
func (t *Tokens) After(before []int32) *Tokens {
	if len(before) == 0 {
		return t
	}
	raw, vocab := make([]byte, 0, 4*len(before)), t.vocab
	for _, id := range before {
		raw, vocab = binary.LittleEndian.AppendUint32(raw, uint32(id)), max(vocab, int(id)+1)
	}
	first := stretch{name: "what stands before a text", bytes: bytes.NewReader(raw), width: 4, count: int64(len(before))}
	return newTokens(vocab, append([]stretch{first}, t.segments...))
}

// Strided is a text for evaluation in windows that overlap: each begins so many tokens behind the one before it, and only tokens that no window
// before it has are labels. So every token but the first is a label once, of windows of n tokens behind n - Stride of its text or more. A
// window's last token stands in no label of its own window, as people's programs count.
type Strided struct {
	*Tokens
	Stride int
}

func (s Strided) walk(int, uint64) (walk, error) {
	return nil, fmt.Errorf("a text in windows that overlap, want one to train on")
}

func (s Strided) shelf(context int) (shelf, error) {
	if s.Stride < 1 || s.Stride >= context {
		return nil, fmt.Errorf("stride %d, want 1 to less than the %d tokens of a window", s.Stride, context)
	}
	if _, err := s.Tokens.shelf(context); err != nil {
		return nil, err
	}
	return stridedShelf{s.Tokens, int64(context), int64(s.Stride)}, nil
}

type stridedShelf struct {
	tokens       *Tokens
	size, stride int64
}

func (s stridedShelf) windows() int64 {
	return 1 + (max(0, s.tokens.Len()-s.size)+s.stride-1)/s.stride
}

func (s stridedShelf) fill(b *Batch, row int, i int64) error {
	begin := i * s.stride
	window := make([]int32, min(s.size, s.tokens.Len()-begin))
	if err := s.tokens.Read(window, begin); err != nil {
		return err
	}
	labels := append([]int32(nil), window[1:]...)
	if i > 0 {
		for j := range s.size - s.stride - 1 { // the window before has them
			labels[j] = Ignored
		}
	}
	b.put(row, 0, window[:len(labels)], labels)
	return nil
}
