package state

import (
	"context"

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
	shot := h.snapshot(h.residents())
	shot.DType = o.DType
	if o.WithoutOptimizer || len(shot.States) == 0 {
		shot.Optimizer, shot.Transform, shot.States = optim.Config{}, "", nil
	}
	return shot.Save(ctx, path, o.Run)
}

// snapshot is what the fields say and stages have, as a checkpoint has it.
func (f Fields) snapshot(stages []Resident) Snapshot {
	params, frozen, other := trees(stages)
	return Snapshot{
		Definition: f.Definition, Optimizer: f.Optimizer, Transform: f.Transform.Name(), Step: f.Step, Skipped: f.Skipped, Adapter: AdapterName(devices(stages)...),
		Params: append(params, frozen...), Frozen: Paths(frozen...), Other: other, States: states(stages),
	}
}
