package data

import (
	"fmt"
	"slices"
)

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
		kept := span{count: int32(len(d.Tokens))}.kept(c.context, c.long)
		from, n := int(kept.start), int(kept.count)
		tokens := d.Tokens[from : from+n]
		labels := make([]int32, min(n, c.context))
		for i := range labels {
			labels[i] = Ignored
			if i+1 < n && (d.Counts == nil || d.Counts[from+i+1]) {
				labels[i] = tokens[i+1]
			}
		}
		b.put(row, 0, tokens[:len(labels)], labels)
	}
	return b, nil
}
