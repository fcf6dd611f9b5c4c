package state

import (
	"fmt"

	"gputrain/data"
	"gputrain/graph/compile"
	"gputrain/model"
)

// Feed is the values of a model's inputs.
type Feed struct {
	Batch     data.Batch // without positions, every row is a document of its own
	Rows      []int32    // of the batch's tokens, whose logits are wanted
	LossScale float32    // times the power of two of a scaled loss
	// Pairs are what a Preference reads besides, in place of the batch's labels, and LearnedScale is model.InputLearnedScale.
	Pairs        *model.PairInputs
	LearnedScale float32
	DropoutKey   [2]uint32
}

// Write sets those inputs of a program that it has.
func (f Feed) Write(to *compile.Program) error {
	for name := range to.Inputs() {
		var err error
		switch name {
		case model.InputTokens:
			err = to.WriteInts(name, f.Batch.Tokens)
		case model.InputLabels:
			labels := f.Batch.Labels
			if f.Pairs != nil {
				labels = f.Pairs.Labels
			}
			err = to.WriteInts(name, labels)
		case model.InputWeights:
			err = to.WriteFloats(name, f.Pairs.Weights)
		case model.InputPairs:
			err = to.WriteFloats(name, f.Pairs.Counts)
		case model.InputLearnedScale:
			err = to.WriteFloats(name, []float32{f.LearnedScale})
		case model.InputPositions:
			positions := f.Batch.Positions
			if positions == nil {
				positions = data.Whole(f.Batch.Rows, len(f.Batch.Tokens)/f.Batch.Rows)
			}
			err = to.WriteInts(name, positions)
		case model.InputRows:
			err = to.WriteInts(name, f.Rows)
		case model.InputLossScale:
			err = to.WriteFloats(name, []float32{f.LossScale})
		case model.InputDropoutKey:
			err = to.WriteUints(name, f.DropoutKey[:])
		default:
			err = fmt.Errorf("input %q: nothing to write", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
