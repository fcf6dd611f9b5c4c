package optim

import (
	"fmt"

	"gputrain/internal/suggest"
)

// Numerics names which of two sets of rules an optimizer follows. They are recorded in every checkpoint.
type Numerics string

const (
	// Stable is the default: what we hold to be right.
	Stable Numerics = "stable"
	// EFormer follows optax 0.2.7 and eformer number by number, oddities included.
	EFormer Numerics = "eformer"
)

// Validate accepts the two names and "", which is Stable.
func (n Numerics) Validate() error {
	switch n {
	case "", Stable, EFormer:
		return nil
	}
	return fmt.Errorf("numerics: found %q, wanted stable or eformer%s", string(n), suggest.DidYouMean(string(n), []string{string(Stable), string(EFormer)}))
}
