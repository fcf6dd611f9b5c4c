package optim

import "fmt"

// Phase is what one recording of an optimizer does.
type Phase int

const (
	// Emit measures what there is to measure and updates the params: every call, or the last one of an accumulation.
	Emit Phase = iota
	// Collect only adds a gradient to the accumulation.
	Collect
	// Measure and Apply are the two halves of Emit, for a tree that is one stage of a model: between them the caller
	// puts the statistics of all stages together (State.Statistics) and writes them back.
	Measure
	Apply
	// Reuse is Emit, and ReuseApply Apply, for an update that keeps what is costly to refresh: preconditioners with a cadence.
	Reuse
	ReuseApply
)

func (p Phase) String() string {
	switch p {
	case Emit:
		return "emit"
	case Collect:
		return "collect"
	case Measure:
		return "measure"
	case Apply:
		return "apply"
	case Reuse:
		return "reuse"
	case ReuseApply:
		return "reuse apply"
	}
	return fmt.Sprintf("Phase(%d)", int(p))
}
