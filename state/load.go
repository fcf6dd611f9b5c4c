package state

import (
	"context"

	"gputrain/gpu"
)

// Load restores a state to the bits that Save wrote, and returns the record that was saved with it. The configuration is completed and
// compared, and the files are verified, as ReadCheckpoint does.
func Load(ctx context.Context, dev *gpu.Device, c Config, dir string) (*TrainState, Record, error) {
	saved, err := ReadCheckpoint(c, dir)
	if err != nil {
		return nil, Record{}, err
	}
	s, err := CreateFrom(ctx, dev, saved.Config, saved.Params)
	if err != nil {
		return nil, saved.Record, err
	}
	if err := saved.Restore(s.opt); err != nil {
		s.Release()
		return nil, saved.Record, err
	}
	s.step, s.skipped = saved.Record.Step, saved.Record.Skipped
	return s, saved.Record, nil
}
