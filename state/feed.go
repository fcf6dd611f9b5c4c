package state

import (
	"fmt"

	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/run/data"
)

// Feed is the values of a model's inputs.
type Feed struct {
	Batch     data.Batch // without positions, every row is a document of its own
	Rows      []int32    // of the batch's tokens, whose logits are wanted, or what another head gives
	LossScale float32    // times the power of two of a scaled loss
	// Floats and Ints are the inputs of an objective, by name, and Counts those that its loss is divided by.
	Floats     map[string][]float32
	Ints       map[string][]int32
	Counts     model.Counts
	Idle       bool    // there is no gradient
	Balance    float32 // model.InputBalance
	DropoutKey [2]uint32
}

// FeedOf is what an objective reads of a batch alone.
func FeedOf(o model.Objective, b data.Batch) Feed {
	in := o.Inputs(rowsOf(b))
	b.Tokens, b.Labels = in.Tokens, in.Labels
	return Feed{Batch: b, Rows: in.Ends, Floats: in.Floats, Ints: in.Ints, Counts: in.Counts, Idle: in.Idle}
}

func rowsOf(b data.Batch) model.Rows {
	return model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows, Beside: b.Beside, Positions: b.Positions}
}

// Write sets those inputs of a program that it has.
func (f Feed) Write(to *compile.Program) error {
	for name := range to.Inputs() {
		var err error
		switch name {
		case model.InputTokens:
			err = to.WriteInts(name, f.Batch.Tokens)
		case model.InputLabels:
			err = to.WriteInts(name, f.Batch.Labels)
		case model.InputLabelScale:
			err = to.WriteFloats(name, []float32{f.Counts.LabelScale()})
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
		case model.InputThere:
			err = to.WriteFloats(name, f.Batch.There())
		case model.InputBalance:
			err = to.WriteFloats(name, []float32{f.Balance})
		case model.InputDropoutKey:
			err = to.WriteUints(name, f.DropoutKey[:])
		default:
			if ints, there := f.Ints[name]; there {
				err = to.WriteInts(name, ints)
				break
			}
			values, there := f.Floats[name]
			if !there || values == nil {
				return fmt.Errorf("input %q: nothing to write", name)
			}
			err = to.WriteFloats(name, values)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
