package state

import (
	"context"

	"gputrain/buffers"
	"gputrain/checkpoint"
	"gputrain/optim"
)

// SaveOptions say what of a value is saved, and how.
type SaveOptions struct {
	Run              checkpoint.Run // what a loop wants to find again
	WithoutOptimizer bool           // leave the optimizer state out
	DType            string         // of the weights: "F32", "BF16" or "F16", as an export has them; "": as the tree keeps them, with every bit
}

// Save writes the value to the checkpoint directory path, whole or not at all: what Snapshot.Save writes, other.safetensors beside it where there
// are other variables, and no config.json where there is no definition. It waits for the device. Every error is a *checkpoint.SaveError.
func (v Value) Save(ctx context.Context, path string, o SaveOptions) error {
	h, err := v.use("save")
	if err != nil {
		return &checkpoint.SaveError{Path: path, Err: err}
	}
	return o.Of(h.snapshot()).Save(ctx, path, o.Run)
}

// Of is what the options leave of a snapshot, whose transformation may have no state yet.
func (o SaveOptions) Of(s Snapshot) Snapshot {
	s.DType = o.DType
	if o.WithoutOptimizer || len(s.States) == 0 {
		s.Optimizer, s.Transform, s.States = optim.Config{}, "", nil
	}
	return s
}

// snapshot is the value as a checkpoint has it.
func (f Fields) snapshot() Snapshot {
	out := Snapshot{
		Definition: f.Definition, Optimizer: f.Optimizer, Transform: f.Transform.Name(), Step: f.Step, Skipped: f.Skipped,
		Adapter: AdapterName(f.device()), Params: f.params(), Frozen: f.frozen(),
	}
	if f.Other != nil {
		out.Other = []*buffers.Tree{f.Other}
	}
	if f.OptimizerState != nil {
		out.States = append(out.States, f.OptimizerState)
	}
	return out
}
