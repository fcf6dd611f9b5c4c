package state

import (
	"context"
	"fmt"

	"gputrain/checkpoint"
	"gputrain/gpu"
	"gputrain/optim"
)

// LoadOptions say what of a checkpoint is loaded.
type LoadOptions struct {
	// Transform is needed for a checkpoint that was made with a transformation of your own: its name and the tensors must agree. A
	// registered one is built from what the checkpoint says.
	Transform optim.Transform
	// WeightsOnly leaves out what the optimizer remembers: the value is at step 0, and has no transformation.
	WeightsOnly bool
}

// LoadValue makes the value that a checkpoint has, whoever saved it, on a device; the record is what else it says. All of it is verified: what is
// not as it was written is checkpoint.ErrCorrupt, an optimizer state that is not of the transformation checkpoint.ErrMismatch.
func LoadValue(ctx context.Context, dev *gpu.Device, dir string, o LoadOptions) (Value, checkpoint.Record, error) {
	if dev == nil {
		return Value{}, checkpoint.Record{}, loadError(dir, "device: found none, wanted one")
	}
	record, err := verified(checkpoint.OS, dir)
	if err != nil {
		return Value{}, record, err
	}
	var frozen []string
	if !o.WeightsOnly {
		frozen = record.Frozen
	}
	f, err := loadTrees(dev, dir, frozen)
	if err == nil && !o.WeightsOnly {
		f.Transform = o.Transform
		err = f.loadOptimizer(dir, record)
		f.Step, f.Skipped = record.Step, record.Skipped
	}
	if err == nil {
		f, err = f.complete()
	}
	if err != nil {
		f.releaseUnless(Fields{})
		return Value{}, record, loadError(dir, "%w", err)
	}
	return holding(f), record, nil
}

// LoadOptimizer gives the value the optimizer state of a checkpoint, counts included. Parameters and step stay. Errors are those of
// LoadValue.
func (v Value) LoadOptimizer(_ context.Context, dir string) (Value, error) {
	h, err := v.whole("load optimizer")
	if err != nil {
		return Value{}, err
	}
	record, err := verified(checkpoint.OS, dir)
	if err != nil {
		return Value{}, err
	}
	f := h.Fields
	f.OptimizerState = nil
	if err := f.loadOptimizer(dir, record); err != nil {
		return Value{}, loadError(dir, "%w", err)
	}
	if f.OptimizerState == nil {
		return Value{}, loadError(dir, "optimizer: found none, wanted one: %w", checkpoint.ErrMismatch)
	}
	h.forget()
	h.releaseUnless(f)
	h.Fields = f
	return v.pass(), nil
}

// loadOptimizer makes the optimizer state that a checkpoint has, if it has one: of the fields' transformation, where there is one, which must be
// the checkpoint's.
func (f *Fields) loadOptimizer(dir string, record checkpoint.Record) error {
	if err := sameFrozen(record.Frozen, f.frozen()); err != nil {
		return err
	}
	saved, own := record.Optimizer, f.Transform.Name()
	config, err := SavedOptimizer(record)
	if err != nil {
		return err
	}
	switch {
	case saved.Counts == nil && own == "":
		return nil
	case saved.Counts == nil:
		return fmt.Errorf("optimizer: found none, wanted %s: %w", own, checkpoint.ErrMismatch)
	case config.Name == "" && own == "":
		return fmt.Errorf("optimizer: found %q, which is no registered one, wanted it as a Transform too: %w", saved.Transform, checkpoint.ErrMismatch)
	case config.Name == "" && saved.Transform != own:
		return fmt.Errorf("optimizer: found %q, which is no registered one, wanted %q: %w", saved.Transform, own, checkpoint.ErrMismatch)
	case own == "":
		f.Optimizer = config
		if f.Transform, err = config.Build(); err != nil {
			return err
		}
		f.Transform = f.freeze(f.Transform)
	case config.Name != "":
		if err := f.agrees(config); err != nil {
			return err
		}
	}
	s, err := f.initOptimizer(f.Params, f.leaves(f.Params))
	if err != nil {
		return err
	}
	if err := (&Checkpoint{Dir: dir, Record: record}).restore([]*optim.State{s}, nil); err != nil {
		s.Release()
		return err
	}
	f.OptimizerState = s
	return nil
}

// agrees compares a saved configuration with that of the fields, or with the name of their transformation where they have none.
func (f *Fields) agrees(saved optim.Config) error {
	if f.Optimizer.Name == "" {
		tx, err := saved.Build()
		if err == nil && f.freeze(tx).Name() != f.Transform.Name() {
			err = fmt.Errorf("optimizer: found %q, wanted %q: %w", f.freeze(tx).Name(), f.Transform.Name(), checkpoint.ErrMismatch)
		}
		return err
	}
	return sameOptimizer(saved, f.Optimizer)
}
