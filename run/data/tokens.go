package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
)

// Tokens is a sequence of token ids with random access: the tokens of its files,
// one after the other. Reading is safe from several goroutines; nothing may be
// read after the corpus it came from is closed.
type Tokens struct {
	segments []Stretch
	starts   []int64 // of each segment, then the whole length
	vocab    int
}

// Stretch is a run of tokens of one file.
type Stretch struct {
	Name   string
	Bytes  io.ReaderAt
	Offset int64 // of the first token, bytes
	Width  int   // bytes a token: 1, 2 or 4, little-endian
	Count  int64 // tokens
	Vocab  int   // of the file's own: every token is below it
}

// NewTokens is the tokens of segments, all of them below vocab.
func NewTokens(vocab int, segments []Stretch) *Tokens {
	t := &Tokens{vocab: vocab, starts: []int64{0}}
	for _, s := range segments {
		if s.Count == 0 {
			continue
		}
		t.segments = append(t.segments, s)
		t.starts = append(t.starts, t.Len()+s.Count)
	}
	return t
}

// Len is the number of tokens; the zero value has none.
func (t *Tokens) Len() int64 {
	if len(t.starts) == 0 {
		return 0
	}
	return t.starts[len(t.starts)-1]
}

// Vocab is one more than the largest token id that can come.
func (t *Tokens) Vocab() int { return t.vocab }

// Read fills dst with the tokens from offset on. It fails when the range leaves
// the sequence, when a file has changed since it was opened, and when a token is
// not below the vocabulary.
func (t *Tokens) Read(dst []int32, offset int64) error {
	if offset < 0 || offset+int64(len(dst)) > t.Len() {
		return fmt.Errorf("data: read: tokens [%d, %d): outside of [0, %d)", offset, offset+int64(len(dst)), t.Len())
	}
	i := sort.Search(len(t.segments), func(i int) bool { return t.starts[i+1] > offset })
	for len(dst) > 0 {
		s := t.segments[i]
		within := offset - t.starts[i]
		n := min(int64(len(dst)), s.Count-within)
		if err := s.read(dst[:n], within, t.vocab); err != nil {
			return err
		}
		dst, offset, i = dst[n:], offset+n, i+1
	}
	return nil
}

func (s Stretch) read(dst []int32, at int64, vocab int) error {
	raw := make([]byte, len(dst)*s.Width)
	if err := ReadBytes(s.Bytes, raw, s.Offset+at*int64(s.Width)); err != nil {
		return fmt.Errorf("data: read %q: tokens [%d, %d): %w", s.Name, at, at+int64(len(dst)), err)
	}
	for i := range dst {
		v := s.token(raw[i*s.Width:])
		if uint64(v) >= uint64(vocab) {
			return s.beyond(at+int64(i), v, vocab)
		}
		dst[i] = int32(v)
	}
	return nil
}

// token is the one that bytes begin with.
func (s Stretch) token(raw []byte) uint32 {
	switch s.Width {
	case 1:
		return uint32(raw[0])
	case 2:
		return uint32(binary.LittleEndian.Uint16(raw))
	}
	return binary.LittleEndian.Uint32(raw)
}

func (s Stretch) beyond(at int64, token uint32, vocab int) error {
	return fmt.Errorf("data: read %q: token %d: is %d, want less than the vocabulary %d", s.Name, at, token, vocab)
}

// Check holds the tokens in bytes of the file, from an offset on, to their vocabulary.
func (s Stretch) Check(raw []byte, at int64) error {
	if s.Width == 1 || s.Width == 2 && s.Vocab >= 1<<16 {
		return nil
	}
	skip := max(0, s.Offset-at)
	for i := skip; i+int64(s.Width) <= int64(len(raw)); i += int64(s.Width) {
		if v := s.token(raw[i:]); uint64(v) >= uint64(s.Vocab) {
			return s.beyond((at+i-s.Offset)/int64(s.Width), v, s.Vocab)
		}
	}
	return nil
}

// ReadBytes fills dst from offset on. Files are read with calls and not mapped: a disk that hangs, or a file that somebody has cut, is
// then an affair of the reader and not of the whole process.
func ReadBytes(r io.ReaderAt, dst []byte, offset int64) error {
	_, err := r.ReadAt(dst, offset)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the file shrank while it was in use: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Slice returns the tokens [from, to) as a sequence of their own.
func (t *Tokens) Slice(from, to int64) *Tokens {
	var cut []Stretch
	for i, s := range t.segments {
		lo, hi := max(from, t.starts[i]), min(to, t.starts[i+1])
		if lo < hi {
			s.Offset += (lo - t.starts[i]) * int64(s.Width)
			s.Count = hi - lo
			cut = append(cut, s)
		}
	}
	return NewTokens(t.vocab, cut)
}

// EncodeBytes turns text into byte tokens, one a byte, ids 0 to 255.
func EncodeBytes(text string) []int32 {
	tokens := make([]int32, len(text))
	for i := range len(text) {
		tokens[i] = int32(text[i])
	}
	return tokens
}

// DecodeBytes is the inverse of [EncodeBytes]; ids outside 0 to 255, which a
// larger vocabulary can produce, become '?'.
func DecodeBytes(tokens []int32) string {
	text := make([]byte, len(tokens))
	for i, t := range tokens {
		text[i] = '?'
		if t >= 0 && t < 256 {
			text[i] = byte(t)
		}
	}
	return string(text)
}

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
