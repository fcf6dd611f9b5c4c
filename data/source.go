package data

// Source is what a [Loader] and an [Evaluation] take windows from: [Tokens], [Documents] or a [Mixture]. Reading from one is safe from
// several goroutines, until the corpus it came from is closed.
type Source interface {
	// Vocab is one more than the largest token id that can come.
	Vocab() int
	// walk is the endless sequence of training windows of context tokens.
	walk(context int, seed uint64) (walk, error)
	// shelf is the windows that an evaluation reads.
	shelf(context int) (shelf, error)
}

// walk is an endless sequence of windows, epoch after epoch, where the window at a state is a pure function of the state. One goroutine
// uses it.
type walk interface {
	// length is the number of windows in an epoch.
	length(epoch uint64) uint64
	// fill reads the window at s into a row of b.
	fill(b *Batch, row int, s State) error
}

// shelf is windows side by side: together they have every label of a source once.
type shelf interface {
	windows() int64
	// fill reads window i into a row of b.
	fill(b *Batch, row int, i int64) error
}
