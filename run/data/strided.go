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
	first := Stretch{Name: "what stands before a text", Bytes: bytes.NewReader(raw), Width: 4, Count: int64(len(before))}
	return NewTokens(vocab, append([]Stretch{first}, t.segments...))
}

// Strided is a text for evaluation in windows of n tokens, as people's programs lay them: each begins Stride tokens after the one before it, and its
// labels are those of its own tokens, except the first, that no window before it has. So every token but the first is a label once, after n - Stride of
// the text or more. With Stride n, windows do not overlap, and the first token of each is no label.
type Strided struct {
	*Tokens
	Stride int
}

func (s Strided) Walk(int, uint64) (Walk, error) {
	return nil, fmt.Errorf("found windows for evaluation, wanted a text to train on")
}

func (s Strided) Shelf(context int) (Shelf, error) {
	if s.Stride < 1 || s.Stride > context || context < 2 {
		return nil, fmt.Errorf("found windows of %d tokens with stride %d, wanted 2 or more, and 1 to that many", context, s.Stride)
	}
	if _, err := s.Tokens.Shelf(context); err != nil {
		return nil, err
	}
	return stridedShelf{s.Tokens, int64(context), int64(s.Stride)}, nil
}

type stridedShelf struct {
	tokens       *Tokens
	size, stride int64
}

func (s stridedShelf) Windows() int64 {
	last := s.size
	if s.stride == s.size {
		last++ // in a window of its own the text's last token is no label
	}
	return 1 + (max(0, s.tokens.Len()-last)+s.stride-1)/s.stride
}

func (s stridedShelf) Fill(b *Batch, row int, i int64) error {
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
	b.Put(row, 0, window[:len(labels)], labels)
	return nil
}
