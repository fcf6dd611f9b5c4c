package texts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"

	"gputrain/run/data"
)

// Documents is a sequence of documents with random access, cut into windows so that no label crosses from one into the next: every
// token but a document's first is a label once, unless its document masks it or Layout.Long leaves it out.
type Documents struct {
	corpus *Corpus // that closes the files
	config Config
	tokens *tokenFile
	key    tokenKey // of tokens
	vocab  int
	layout data.Layout
	group  group   // what a row makes
	places int     // see Config.PerWindow
	share  float64 // that is held for validation; 0: these are all
	first  int64   // documents that are held instead, of files for that, which come first; 0: none are
	held   bool    // these are those that are held, and not the others
	laid   *packed // into the windows that Open was asked for
}

// span is the tokens of one document.
type span struct {
	start  int64
	count  int32
	masked bool   // some of its tokens are no labels
	beside uint32 // bits of document.beside
}

// Vocab is one more than the largest token id that can come.
func (d *Documents) Vocab() int { return d.vocab }

// split parts documents into training and validation: every n-th document, where n is one over the share, or the first.
func (d *Documents) split(share float64, held int64) (train, validation *Documents) {
	first, second := *d, *d
	first.share, first.first = share, held
	second.share, second.first, second.held = share, held, true
	return &first, &second
}

// has tells whether document i of the files is one of these.
func (d *Documents) has(i int64) bool {
	if d.first > 0 {
		return d.held == (i < d.first)
	}
	i /= int64(d.group.size())
	return d.share == 0 || d.held == (int64(float64(i+1)*d.share) > int64(float64(i)*d.share))
}

// enough refuses a share of the documents that is none of them.
func (d *Documents) enough(share float64) error {
	n, what := d.counted(int64(d.tokens.parts.count))
	if int64(float64(n)*share) > 0 {
		return nil
	}
	way := "data.validation 0, which keeps none"
	if n > 1 {
		step := math.Pow10(int(math.Floor(-math.Log10(float64(n)))) - 1) // the second digit
		way = fmt.Sprintf("data.validation %.2g or more, or 0, which keeps none", math.Ceil(1/float64(n)/step)*step)
	}
	return fmt.Errorf("validation %v of %d %ss leaves 0 for validation, wanted 1 or more: %s", share, n, what, way)
}

// counted is so many documents as they are counted: in groups.
func (d *Documents) counted(documents int64) (n int64, what string) {
	return documents / int64(d.group.size()), cmp.Or(d.group.name, "document")
}

// each takes one document after the other, until take says that it has enough.
func (d *Documents) each(r *reading, take func(i int, s span) (more bool, err error)) error {
	start, own := int64(0), 0
	return d.tokens.parts.each(r, func(i int64, part uint64) (bool, error) {
		s := span{start: start, count: int32(uint32(part) >> 1), masked: part&1 == 1, beside: uint32(part >> 32)}
		start += int64(s.count)
		if !d.has(i) {
			return true, nil
		}
		own++
		return take(own-1, s)
	})
}

// count is how many there are.
func (d *Documents) count(r *reading) (n int) {
	_ = d.each(r, func(int, span) (bool, error) { n++; return true, nil }) // what cannot be read says so elsewhere
	return n
}

// later is what reads when the opening is over.
func (d *Documents) later() *reading { return &reading{ctx: context.Background(), config: d.config} }

// documentWalk takes the packed windows in a shuffled order.
type documentWalk struct {
	*packed
	seed uint64
}

func (d *Documents) Walk(size int, seed uint64) (data.Walk, error) {
	p, err := d.pack(d.later(), size)
	if err != nil {
		return nil, err
	}
	return documentWalk{p, seed}, nil
}

func (w documentWalk) Length(uint64) uint64 { return uint64(w.Windows()) }

func (w documentWalk) Fill(b *data.Batch, row int, s data.State) error {
	return w.packed.Fill(b, row, data.Shuffled(s, w.Windows(), int64(w.Group()), w.seed))
}

func (d *Documents) Shelf(size int) (data.Shelf, error) { return d.pack(d.later(), size) }

// unlabelled marks a stored token that is not to be predicted.
const unlabelled = 1 << 31

// store holds tokens as little-endian numbers of two or four bytes, whose highest bit is unlabelled.
type store struct {
	bytes io.ReaderAt
	width int
}

// read fills dst with the tokens from at on, each with its bit unlabelled.
func (s store) read(dst []uint32, at int64) error {
	raw := make([]byte, len(dst)*s.width)
	if _, err := s.bytes.ReadAt(raw, at*int64(s.width)); err != nil {
		return fmt.Errorf("data: read documents: tokens [%d, %d): %w", at, at+int64(len(dst)), err)
	}
	for i := range dst {
		dst[i] = s.decode(raw[i*s.width:])
	}
	return nil
}
