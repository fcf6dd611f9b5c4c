package state

import (
	"context"
	"errors"
	"fmt"

	"gputrain/gpu"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// LoadOptions say what of a checkpoint is loaded, and where to.
type LoadOptions struct {
	// Transform is needed for a checkpoint that was made with a transformation of your own: its name and the tensors must agree. A
	// registered one is built from what the checkpoint says.
	Transform optim.Transform
	// WeightsOnly leaves out what the optimizer remembers: the value is at step 0, and has no transformation.
	WeightsOnly bool
	// Placement says where the leaves go, in place of a device, so that none needs room for all of them; whoever saved the value may have had it placed
	// otherwise. Its zero value: all leaves go to the device.
	Placement Placement
}

// placement is where the leaves go, with a device or without.
func (o LoadOptions) placement(dev *gpu.Device) (Placement, error) {
	placed := o.Placement.Devices != nil || o.Placement.Stage != nil
	switch {
	case dev != nil && placed:
		return Placement{}, errors.New("device: found one beside a placement, which has its own, wanted none")
	case placed:
		return o.Placement, nil
	case dev == nil:
		return Placement{}, errors.New("device: found none, wanted one or a placement")
	}
	return Placement{Devices: []*gpu.Device{dev}}, nil
}

// LoadValue makes the value that a checkpoint has, whoever saved it, on a device or where a placement has its leaves; the record is what else
// it says. All of it is verified: what is not as it was written is checkpoint.ErrCorrupt, an optimizer state that is not of the
// transformation checkpoint.ErrMismatch. After an error the devices have nothing of it. On a dry device the value takes nothing, and has the
// leaves that a placement is to place.
func LoadValue(ctx context.Context, dev *gpu.Device, dir string, o LoadOptions) (Value, checkpoint.Record, error) {
	p, err := o.placement(dev)
	if err != nil {
		return Value{}, checkpoint.Record{}, loadError(dir, "%w", err)
	}
	record, err := verified(checkpoint.OS, dir)
	if err != nil {
		return Value{}, record, err
	}
	f, err := loadFields(p, dir, record, o)
	if err != nil {
		return Value{}, record, loadError(dir, "%w", err)
	}
	return holding(f), record, nil
}

// loadFields are the fields that a checkpoint has, where a placement has them. First all of them are made on a device that takes nothing,
// which shows what there is and whether it goes together.
func loadFields(p Placement, dir string, record checkpoint.Record, o LoadOptions) (f Fields, err error) {
	if err := p.check(); err != nil {
		return f, err
	}
	var frozen []string
	if !o.WeightsOnly {
		frozen = record.Frozen
	}
	saved, err := openTrees(dir, frozen)
	if err != nil {
		return f, err
	}
	defer saved.Close()
	whole, err := saved.load(p.Devices[0].AsDry(), everywhere)
	if err != nil {
		return f, err
	}
	f = Fields{Definition: saved.definition}.on([]Resident{whole})
	remembers := false
	if !o.WeightsOnly {
		f.Transform, f.Step, f.Skipped, f.Memory = o.Transform, record.Step, record.Skipped, record.Memory
		if remembers, err = f.followOptimizer(record); err != nil {
			return f, err
		}
	}
	if f, err = f.complete(); err != nil {
		return f, err
	}
	if p, err = p.of(f); err != nil {
		return f, err
	}
	to := make([]Resident, len(p.Devices))
	for i, dev := range p.Devices {
		if to[i], err = saved.load(dev, func(path string) bool { return p.Stage[path] == i }); err != nil {
			err = atStage(i, len(to), err)
			break
		}
	}
	if err == nil && remembers {
		err = f.loadOptimizer(dir, record, to)
	}
	if err != nil {
		Fields{Stages: to}.releaseUnless(Fields{})
	}
	return f.on(to), err
}

// atStage names the stage of an error, where there are several.
func atStage(stage, stages int, err error) error {
	if err == nil || stages == 1 {
		return err
	}
	return fmt.Errorf("stage %d: %w", stage, err)
}

// LoadOptimizer gives the value the optimizer state of a checkpoint, counts included, on each stage that of its leaves. Parameters and step stay: the
// record tells of which step the optimizer state is. Errors are those of LoadValue, and leave the value as it was.
func (v Value) LoadOptimizer(_ context.Context, dir string) (Value, checkpoint.Record, error) {
	h, err := v.use("load optimizer")
	if err != nil {
		return Value{}, checkpoint.Record{}, err
	}
	record, err := verified(checkpoint.OS, dir)
	if err != nil {
		return Value{}, record, err
	}
	f, stages := h.Fields, h.residents()
	for i := range stages {
		stages[i].State = nil
	}
	remembers, err := f.followOptimizer(record)
	if err == nil && !remembers {
		err = fmt.Errorf("optimizer: found none, wanted one: %w", checkpoint.ErrMismatch)
	}
	if err == nil {
		err = f.loadOptimizer(dir, record, stages)
	}
	if err != nil {
		return Value{}, record, loadError(dir, "%w", err)
	}
	f = f.on(stages)
	h.forget()
	h.releaseUnless(f)
	h.Fields = f
	return v.pass(), record, nil
}

// followOptimizer takes the transformation of a checkpoint, or makes sure that it is that of the fields, and tells whether the checkpoint has
// its state.
func (f *Fields) followOptimizer(record checkpoint.Record) (remembers bool, err error) {
	if err := sameFrozen(record.Frozen, f.frozen()); err != nil {
		return false, err
	}
	saved, own := record.Optimizer, f.Transform.Name()
	config, err := SavedOptimizer(record)
	if err != nil {
		return false, err
	}
	switch {
	case saved.Counts == nil && own == "":
		return false, nil
	case saved.Counts == nil:
		return false, fmt.Errorf("optimizer: found none, wanted %s: %w", own, checkpoint.ErrMismatch)
	case config.Name == "" && own == "":
		return false, fmt.Errorf("optimizer: found %q, which is no registered one, wanted it as a Transform too: %w", saved.Transform, checkpoint.ErrMismatch)
	case config.Name == "" && saved.Transform != own:
		return false, fmt.Errorf("optimizer: found %q, which is no registered one, wanted %q: %w", saved.Transform, own, checkpoint.ErrMismatch)
	case own == "":
		f.Optimizer = config
		if f.Transform, err = config.Build(); err != nil {
			return false, err
		}
		f.Transform = f.freeze(f.Transform)
	case config.Name != "":
		if err := f.agrees(config); err != nil {
			return false, err
		}
	}
	return true, nil
}

// loadOptimizer makes the optimizer's states of the fields' transformation on stages, as a checkpoint has them. After an error the stages have none.
func (f Fields) loadOptimizer(dir string, record checkpoint.Record, stages []Resident) (err error) {
	defer func() {
		for i := range stages {
			if err != nil {
				stages[i].State.Release()
				stages[i].State = nil
			}
		}
	}()
	params, _, _ := trees(stages)
	whole := f.leaves(params...)
	for i := range stages {
		if stages[i].State, err = f.initOptimizer(stages[i].Params, whole); err != nil {
			return atStage(i, len(stages), err)
		}
	}
	return (&savedState{Dir: dir, Record: record}).restore(states(stages), nil)
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
