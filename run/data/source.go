package data

// Source is what a [Loader] and an [Evaluation] take windows from: [Tokens], the documents of package texts, or a [Mixture]. Reading from one is safe from
// several goroutines, until the corpus it came from is closed.
type Source interface {
	// Vocab is one more than the largest token id that can come.
	Vocab() int
	// Walk is the endless sequence of training windows of context tokens.
	Walk(context int, seed uint64) (Walk, error)
	// Shelf is the windows that an evaluation reads.
	Shelf(context int) (Shelf, error)
}

// A Labelled source can lay numbers beside the tokens of its windows.
type Labelled interface {
	Source
	// With is the source whose batches of windows of context tokens have numbers beside each row (Batch.Beside), as many of each, in the order of the
	// windows of the source's Shelf.
	With(context int, name string, values []float32) (Source, error)
}

// Walk is an endless sequence of windows, epoch after epoch, where the window at a state is a pure function of the state. One goroutine
// uses it.
type Walk interface {
	// Length is the number of windows in an epoch.
	Length(epoch uint64) uint64
	// Fill reads the window at s into a row of b.
	Fill(b *Batch, row int, s State) error
}

// Shelf is windows side by side: together they have every label of a source once. Where several windows stay together, it has a method Group that says how many.
type Shelf interface {
	Windows() int64
	// Fill reads window i into a row of b.
	Fill(b *Batch, row int, i int64) error
}

// Earlier is what earlier programs made of a text, where this one makes other tokens of some rows. The zero value: they made the same.
type Earlier struct {
	Fingerprint string // of the text, with the tokens of those programs
	Why         string // the first such row, and why it has other tokens now
}
