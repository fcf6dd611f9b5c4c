package data

import (
	"fmt"
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

// WithDefaults says what is meant where something is empty.
func (l Layout) WithDefaults() Layout {
	if l.Packing == "" {
		l.Packing = PackFirstFit
	}
	if l.Long == "" {
		l.Long = LongSplit
	}
	return l
}

// Validate reports the first value that cannot be meant.
func (l Layout) Validate() error {
	l = l.WithDefaults()
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

// Kept is which of the count tokens of a document a window of size tokens, or several, take: n of them, from one on. long says which are left out where there
// are more. A window has a label behind its last token.
func Kept(count, size int, long string) (from, n int) {
	over := count - size - 1
	switch {
	case over <= 0 || long == LongSplit:
		return 0, count
	case long == LongKeepEnd:
		return over, count - over
	}
	return 0, count - over
}
