package optim

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/internal/suggest"
	"gputrain/kron"
)

// Numerics names which of two sets of rules an optimizer follows. They are recorded in every checkpoint.
type Numerics string

const (
	// Stable is the default: what we hold to be right.
	Stable Numerics = "stable"
	// EFormer follows optax 0.2.7 and eformer number by number, oddities included.
	EFormer Numerics = "eformer"
)

// rules are all that the two numerics differ in.
type rules struct {
	dither         bool // a bf16 moment is rounded stochastically, and its decay not at all; otherwise it, its decay and their product to nearest even
	oneDecay       bool // a decay inside an optimizer is refused besides the options' own
	innerMask      bool // such a decay follows the options' mask where it has none of its own; otherwise all leaves decay
	constantWarmup bool // a constant rate may warm up
	cosineExponent bool // a cosine without warm-up keeps its exponent; otherwise that is 1

	lionDecay        float64 // inside Lion, of all leaves: optax.lion's default, which eformer's builder leaves on whatever decay it is given
	muonSparesTables bool    // embeddings and the output head are AdamW's, unless patterns say otherwise

	kron            kron.Rules
	kronDType       buffers.DType // of the factors, where the parameters say nothing
	kronMomentumF32 bool          // the momentum is; otherwise it has the type of the factors
	kronRounds      bool          // what the factors multiply is rounded to their type
	kronDecay       float64       // inside, where the parameters say nothing

	clipStageLocal bool // eformer's stage-local path clips by a rule of its own
}

var stableRules = rules{
	dither: true, oneDecay: true, innerMask: true, constantWarmup: true, cosineExponent: true,
	muonSparesTables: true,
	kron:             kron.Stable(), kronDType: buffers.F32, kronMomentumF32: true,
}

var eformerRules = rules{lionDecay: 1e-3, kronDType: buffers.BF16, kronRounds: true, kronDecay: 0.1, clipStageLocal: true}

func (n Numerics) rules() rules {
	if n == EFormer {
		return eformerRules
	}
	return stableRules
}

// Edition is which rules the numerics had: a run goes on with those that it began with.
type Edition int

const (
	// First is what a record without an edition means. Muon took every matrix for [inputs, outputs]. In eformer numerics Quad and Skew had blocks of
	// 128 by default, drew in the order of paths and did not round the corrected momentum, and the stage-local path clipped as whole trees do.
	// Parameters that the numerics do not read could have any value.
	First Edition = 1
	// Newest is what the zero value stands for.
	Newest Edition = 2
)

// rules are those of the edition.
func (o Options) rules() rules {
	r := o.Numerics.rules()
	if o.Edition == First {
		r.kron.ByPath, r.kronRounds, r.clipStageLocal = true, false, false
	}
	return r
}

// Validate accepts the two names and "", which is Stable.
func (n Numerics) Validate() error {
	switch n {
	case "", Stable, EFormer:
		return nil
	}
	return fmt.Errorf("numerics: found %q, wanted stable or eformer%s", string(n), suggest.DidYouMean(string(n), []string{string(Stable), string(EFormer)}))
}
