package tensorboard

// fileVersion is what the first event of a file says. A reader that finds it goes by Start.
const fileVersion = "brain.Event:2"

// Event is a record of an event file: one of Version, Start and Values.
type Event struct {
	WallTime float64 // seconds since 1970
	Step     int64

	Version string // "brain.Event:2", of the first event of a file
	// Start says that a process begins here: what an earlier one has written of Step and later is void.
	Start  bool
	Values []Value
}

// Value is a figure under a tag, such as train/loss.
type Value struct {
	Tag       string
	Kind      kind
	Scalar    float32
	Histogram *Histogram
	Text      string // Markdown
}

// kind says which field of a Value is its own.
type kind int

// The kinds of values.
const (
	Scalar kind = iota + 1
	Distribution
	Text
)

// Histogram says how numbers are distributed.
type Histogram struct {
	Min, Max, Count, Sum, SumOfSquares float64

	Limits []float64 // right edges of the buckets, ascending; the first bucket begins at Min
	Counts []float64 // of each bucket
}
