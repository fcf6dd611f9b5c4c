package state

import (
	"context"

	"gputrain/gpu"
	"gputrain/state/checkpoint"
)

// Load restores a state to the bits that Save wrote, and returns the record that was saved with it. The configuration is completed and
// compared, and the files are verified, as ReadCheckpoint does.
func Load(ctx context.Context, dev *gpu.Device, c Config, dir string) (*TrainState, checkpoint.Record, error) {
	saved, err := ReadCheckpoint(c, dir)
	if err != nil {
		return nil, checkpoint.Record{}, err
	}
	defer saved.Close()
	s, err := CreateFrom(ctx, dev, saved.Job, saved.Params)
	if err != nil {
		return nil, saved.Record, err
	}
	err = s.Restore(saved)
	if err == nil && saved.HasOther() {
		if s.own.Other, err = loadOther(dev, dir); err != nil {
			err = loadError(dir, "%s: %w", checkpoint.OtherFile, err)
		}
	}
	if err != nil {
		s.Release()
		return nil, saved.Record, err
	}
	return s, saved.Record, nil
}

// Restore puts the optimizer's state and the counts of a checkpoint into a state that was made of its parameters.
func (s *TrainState) Restore(saved *savedState) error {
	if err := s.restoreOptimizer(saved); err != nil {
		return err
	}
	s.own.Step, s.own.Skipped, s.own.Memory = saved.Record.Step, saved.Record.Skipped, saved.Record.Memory
	return nil
}

// restoreOptimizer puts the optimizer's state of a checkpoint into this one's, or of it the part that is this replica's.
func (s *TrainState) restoreOptimizer(saved *savedState) error {
	saved.count(s.Optimizers())
	pieces, err := s.pieces(unread)
	if err != nil {
		return err
	}
	return saved.restorePart(s.Optimizers(), pieces)
}

// LoadOptimizer replaces the optimizer state, counts included, by that of a checkpoint of the same model and optimizer. Parameters and step
// stay: the record tells of which step the optimizer state is. It waits for the steps in flight. After an error the state is unusable, unless
// the error says that the checkpoint is damaged, or is of another model or optimizer.
func (s *TrainState) LoadOptimizer(ctx context.Context, dir string) (checkpoint.Record, error) {
	if err := s.usable(); err != nil {
		return checkpoint.Record{}, loadError(dir, "%w", err)
	}
	saved, err := s.job.readOptimizer(dir)
	if err != nil {
		return checkpoint.Record{}, err
	}
	if err := s.settle(); err != nil {
		return saved.Record, loadError(dir, "%w", err)
	}
	if err := s.restoreOptimizer(saved); err != nil {
		s.broken = err
		return saved.Record, err
	}
	return saved.Record, nil
}
