package data

import (
	"fmt"
	"slices"

	"gputrain/graph"
)

// Ignored is the label of positions that do not count.
const Ignored = graph.IgnoreLabel

// Batch holds Rows windows of the same number of tokens each, row-major. What a window lacks has token 0 and label [Ignored].
type Batch struct {
	Tokens []int32 // [Rows, Context]
	Labels []int32 // [Rows, Context]: the next token, or Ignored
	// Positions are those of the tokens in their documents, [Rows, Context], where windows have several that do not see each other; else nil.
	Positions []int32
	// Beside are numbers that an objective reads beside tokens, by name, as many of each row as of any other.
	Beside map[string][]float32
	Rows   int
	Count  int   // labels that are not Ignored
	State  State // where the loader stands after this batch
	// Epochs is how often the source has been gone through after this batch: 1.5 in the middle of the second time. 0 where an epoch has no end.
	Epochs float64
}

func newBatch(rows, size int) Batch {
	b := Batch{Tokens: make([]int32, rows*size), Labels: make([]int32, rows*size), Rows: rows}
	for i := range b.Labels {
		b.Labels[i] = Ignored
	}
	return b
}

// Place lays a document of n tokens into a row from a place on: its positions begin anew there, and again behind it.
func (b *Batch) Place(row, at, n int) {
	size := len(b.Tokens) / b.Rows
	if b.Positions == nil {
		b.Positions = Whole(b.Rows, size)
	}
	for i := at; i < size; i++ {
		b.Positions[row*size+i] = int32(i - at)
		if i >= at+n {
			b.Positions[row*size+i] = int32(i - at - n)
		}
	}
}

// SetBeside lays numbers beside a row, as many as beside any other.
func (b *Batch) SetBeside(name string, row int, values ...float32) {
	if b.Beside == nil {
		b.Beside = map[string][]float32{}
	}
	if b.Beside[name] == nil {
		b.Beside[name] = make([]float32, b.Rows*len(values))
	}
	copy(b.Beside[name][row*len(values):], values)
}

// There tells of each token whether its row has it: 1, or 0 behind the last token that is not 0 and the last label that is not [Ignored].
func (b Batch) There() []float32 {
	there, size := make([]float32, len(b.Tokens)), len(b.Tokens)/max(1, b.Rows)
	for first := 0; first < len(there); first += size {
		last := size - 1
		for last >= 0 && b.Tokens[first+last] == 0 && (len(b.Labels) != len(there) || b.Labels[first+last] == Ignored) {
			last--
		}
		for i := range last + 1 {
			there[first+i] = 1
		}
	}
	return there
}

// Part is a range of the rows of b, as a Loader with that Share hands it out.
func (b Batch) Part(of Share) Batch {
	size := 0
	if b.Rows > 0 {
		size = len(b.Tokens) / b.Rows
	}
	from, to := of.First*size, (of.First+of.Rows)*size
	part := Batch{Tokens: b.Tokens[from:to], Labels: b.Labels[from:to], Rows: of.Rows, State: b.State, Epochs: b.Epochs}
	if b.Positions != nil {
		part.Positions = b.Positions[from:to]
	}
	for name, values := range b.Beside {
		if part.Beside == nil {
			part.Beside = map[string][]float32{}
		}
		each := len(values) / b.Rows
		part.Beside[name] = values[of.First*each : (of.First+of.Rows)*each]
	}
	part.Count = Counted(part.Labels)
	return part
}

// Counted is how many labels are not [Ignored].
func Counted(labels []int32) (n int) {
	for _, label := range labels {
		if label != Ignored {
			n++
		}
	}
	return n
}

// Whole are the positions of rows of one document each.
func Whole(rows, size int) []int32 {
	positions := make([]int32, rows*size)
	for i := range positions {
		positions[i] = int32(i % size)
	}
	return positions
}

// Put lays tokens and their labels into a row from a place on.
func (b *Batch) Put(row, at int, tokens, labels []int32) {
	at += row * (len(b.Tokens) / b.Rows)
	copy(b.Tokens[at:], tokens)
	copy(b.Labels[at:], labels)
	b.Count += Counted(labels)
}

// cut reads a window of n labels that begins at token start of a text into a row.
func (b *Batch) cut(tokens *Tokens, row int, start int64, n int) error {
	window := make([]int32, n+1)
	if err := tokens.Read(window, start); err != nil {
		return err
	}
	b.Put(row, 0, window[:n], window[1:])
	return nil
}

// Document is the tokens of one document.
type Document struct {
	Tokens []int32
	Counts []bool // which of them are to be predicted; nil: all
}

// Collator makes batches of documents, one a row: too long ones are cut, the rest of a row is padding that does not count.
type Collator struct {
	context int
	long    string
}

// NewCollator makes rows of context tokens. Of a document with more, long keeps the beginning (LongKeepStart) or the end (LongKeepEnd).
func NewCollator(context int, long string) (*Collator, error) {
	if kept := []string{LongKeepStart, LongKeepEnd}; context < 1 || !slices.Contains(kept, long) {
		return nil, fmt.Errorf("data: collator: context %d, long documents %q: want at least 1, one of %q", context, long, kept)
	}
	return &Collator{context, long}, nil
}

// Collate makes a batch of the documents, in their order. Its State is zero.
func (c *Collator) Collate(documents ...Document) (Batch, error) {
	b := newBatch(len(documents), c.context)
	for row, d := range documents {
		if d.Counts != nil && len(d.Counts) != len(d.Tokens) {
			return Batch{}, fmt.Errorf("data: collator: document %d: %d tokens, but %d say whether they count", row, len(d.Tokens), len(d.Counts))
		}
		from, n := Kept(len(d.Tokens), c.context, c.long)
		tokens := d.Tokens[from : from+n]
		labels := make([]int32, min(n, c.context))
		for i := range labels {
			labels[i] = Ignored
			if i+1 < n && (d.Counts == nil || d.Counts[from+i+1]) {
				labels[i] = tokens[i+1]
			}
		}
		b.Put(row, 0, tokens[:len(labels)], labels)
	}
	return b, nil
}
