package data

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// Values of Layout.Packing and Layout.Long.
const (
	PackStream   = "stream"
	PackGreedy   = "greedy"
	PackFirstFit = "first_fit"
	PackNone     = "none"

	LongSplit     = "split"
	LongKeepStart = "keep_start"
	LongKeepEnd   = "keep_end"
)

// Packings and Longs are the values of Layout.Packing and Layout.Long.
var (
	Packings = []string{PackFirstFit, PackGreedy, PackStream, PackNone}
	Longs    = []string{LongSplit, LongKeepStart, LongKeepEnd}
)

// Layout says how documents become windows. The zero value is first_fit and split, with the end token that suits the documents.
type Layout struct {
	End *int `yaml:"eos" range:"-1.." doc:"token after every document, below model.vocab; null: the tokenizer's end token after text (0 after bytes), and none after lists of tokens; -1: none. With a tokenizer also between two text files"`
	// Packing is first_fit where it is empty, and looks at many open windows, greedy at the newest only. The last token of a document has no label: nothing
	// predicts over a border.
	Packing string `yaml:"packing" default:"first_fit" range:"packings" doc:"jsonl: how documents share a window: whole documents wherever there is room (first_fit) or in turn (greedy), continued in the next window (stream), or not at all (none). Nothing is predicted across a border"`
	// Together lets the documents of a window see each other; else Batch.Positions keep them apart.
	Together bool `yaml:"-"`
	// Long is split where it is empty. It means nothing to stream.
	Long string `yaml:"long" default:"split" range:"longs" doc:"jsonl: whether a document longer than a window takes several windows (split), or keeps as much as fits of its beginning (keep_start) or its end (keep_end)"`
}

func (l Layout) withDefaults() Layout {
	if l.Packing == "" {
		l.Packing = PackFirstFit
	}
	if l.Long == "" {
		l.Long = LongSplit
	}
	return l
}

func (l Layout) validate() error {
	l = l.withDefaults()
	switch {
	case !slices.Contains(Packings, l.Packing):
		return fmt.Errorf("data: packing: %q, want one of %q", l.Packing, Packings)
	case !slices.Contains(Longs, l.Long):
		return fmt.Errorf("data: long documents: %q, want one of %q", l.Long, Longs)
	case l.Packing == PackStream && l.Long != LongSplit:
		return fmt.Errorf("data: long documents: %q, want %q with packing %q, which fills every window", l.Long, LongSplit, PackStream)
	}
	return nil
}

// Documents is a sequence of documents with random access, cut into windows so that no label crosses from one into the next: every
// token but a document's first is a label once, unless its document masks it or Layout.Long leaves it out.
type Documents struct {
	corpus *Corpus // that closes the files
	config Config
	tokens *tokenFile
	key    tokenKey // of tokens
	vocab  int
	layout Layout
	forms  form    // of the rows that they were
	paired bool    // every two are the completions of one prompt
	share  float64 // that is held for validation; 0: these are all
	held   bool    // these are that share, and not the others
	laid   *packed // into the windows that Open was asked for
}

// span is the tokens of one document.
type span struct {
	start  int64
	count  int32
	masked bool // some of its tokens are no labels
}

// Vocab is one more than the largest token id that can come.
func (d *Documents) Vocab() int { return d.vocab }

// split parts documents into training and validation: every n-th document, where n is one over the share.
func (d *Documents) split(share float64) (train, validation *Documents) {
	first, second := *d, *d
	first.share, second.share, second.held = share, share, true
	return &first, &second
}

// has tells whether document i of the files is one of these.
func (d *Documents) has(i int64) bool {
	if d.paired {
		i /= 2
	}
	return d.share == 0 || d.held == (int64(float64(i+1)*d.share) > int64(float64(i)*d.share))
}

// each takes one document after the other, until take says that it has enough.
func (d *Documents) each(r *reading, take func(i int, s span) (more bool, err error)) error {
	start, own := int64(0), 0
	return d.tokens.parts.each(r, func(i int64, part uint64) (bool, error) {
		s := span{start: start, count: int32(part >> 1), masked: part&1 == 1}
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

func (d *Documents) walk(size int, seed uint64) (walk, error) {
	p, err := d.pack(d.later(), size)
	if err != nil {
		return nil, err
	}
	return documentWalk{p, seed}, nil
}

func (w documentWalk) length(uint64) uint64 { return uint64(w.windows()) }

func (w documentWalk) fill(b *Batch, row int, s State) error {
	n := uint64(w.windows())
	if w.paired {
		return w.packed.fill(b, row, int64(inPairs(s.Position, newOrder(n/2, w.seed, s.Epoch).at)))
	}
	return w.packed.fill(b, row, int64(newOrder(n, w.seed, s.Epoch).at(s.Position)))
}

func (d *Documents) shelf(size int) (shelf, error) { return d.pack(d.later(), size) }

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
