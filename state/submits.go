package state

import (
	"context"
	"fmt"
	"time"

	"gputrain/gpu"
)

// Submits are those of an update, by stage, as the devices cut them at present. Where updates differ they are those of the longest.
func (s *TrainState) Submits() [][]gpu.Planned {
	if s.updater.whole() && s.config.Reducer == nil {
		return s.passes.Submits(s.updater.longest(0)[0])
	}
	out := s.passes.Submits(nil)
	for i, st := range s.stages {
		for _, piece := range s.updater.longest(i) {
			out[i] = append(out[i], st.Params.Device().Plan(piece)...)
		}
	}
	return out
}

// longest are the pieces of the update of a stage that takes longest.
func (u *Updater) longest(stage int) (longest []*gpu.Program) {
	s, most := u.stages[stage], time.Duration(-1)
	for _, phase := range s.State.Phases() {
		takes := time.Duration(0)
		for _, piece := range s.pieces[phase] {
			for _, p := range s.Params.Device().Plan(piece) {
				takes += p.Takes
			}
		}
		if takes > most {
			longest, most = s.pieces[phase], takes
		}
	}
	return longest
}

// Submits are those of an update of a model on one device like that on an adapter, with these limits, for each of some speeds; it needs no device.
// limit is gpu.Options.SubmitLimit.
func (c Config) Submits(ctx context.Context, a gpu.Adapter, lim gpu.Limits, limit time.Duration, speeds ...gpu.Speed) (out [][]gpu.Planned, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	c.Evaluation, c.Sampling = 0, false
	s, dev, err := c.dryOn(ctx, a, lim)
	if err != nil {
		return nil, fmt.Errorf("state: submits: %w", err)
	}
	defer s.Release()
	for _, speed := range speeds {
		dev.Assume(speed, limit)
		out = append(out, s.Submits()[0])
	}
	return out, nil
}
