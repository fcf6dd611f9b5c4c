package optim

import "fmt"

// Phase is what one recording of an optimizer does.
type Phase int

const (
	// Emit measures what there is to measure and updates the params: every call, or the last one of an accumulation.
	Emit Phase = iota
	// Collect only adds a gradient to the accumulation.
	Collect
	// Reuse is Emit for an update that keeps values that are costly to refresh: preconditioners with a cadence.
	Reuse
)

func (p Phase) String() string {
	switch p {
	case Emit:
		return "emit"
	case Collect:
		return "collect"
	case Reuse:
		return "reuse"
	}
	return fmt.Sprintf("Phase(%d)", int(p))
}
