package schedule

import "fmt"

// Kind is what an action does.
type Kind uint8

const (
	// Forward computes a part's activations, and at the last part the loss.
	Forward Kind = iota
	// Backward computes a part's gradients, adding to those of the microbatches before.
	Backward
)

func (k Kind) String() string {
	if k == Forward {
		return "forward"
	}
	return "backward"
}

// Action is one pass of one part over one microbatch.
type Action struct {
	Kind             Kind
	Part, Microbatch int
}

func (a Action) String() string {
	return fmt.Sprintf("%s of part %d, microbatch %d", a.Kind, a.Part, a.Microbatch)
}
