package pipeline

import (
	"context"
	"fmt"
	"time"

	"gputrain/data"
	"gputrain/graph"
	"gputrain/model"
	"gputrain/state"
)

// TrainStep makes one update with a batch of Batch x Accumulate sequences and returns its metrics. An error leaves the state unusable, but for
// one that comes before anything was submitted.
func (s *State) TrainStep(ctx context.Context, batch data.Batch) ([]state.Metrics, error) {
	if err := s.turn.Take(); err != nil {
		return nil, fmt.Errorf("pipeline: train step: %w", err)
	}
	defer s.turn.Give()
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("pipeline: step %d: %w", s.step+1, err)
	}
	count, err := s.config.State.CountLabels(batch)
	if err != nil {
		return nil, fmt.Errorf("pipeline: step %d: %w", s.step+1, err)
	}
	s.held = 0
	// A step once begun is finished: whoever wants to stop does so between steps.
	m, err := s.trainStep(context.WithoutCancel(ctx), batch, count)
	if err != nil {
		s.broken = err
		return nil, fmt.Errorf("pipeline: step %d: %w", s.step+1, err)
	}
	return []state.Metrics{m}, nil
}

func (s *State) trainStep(ctx context.Context, batch data.Batch, count int64) (state.Metrics, error) {
	if err := s.updater.Prepare(ctx, nil); err != nil {
		return state.Metrics{}, err
	}
	if l := s.limits.Of(count); l != s.limited {
		for _, st := range s.stages {
			if err := st.opt.SetLimits(l); err != nil {
				return state.Metrics{}, st.failed("update", err)
			}
		}
		s.limited = l
	}
	s.begun = time.Now()
	s.notes.recorder.Begin()
	if err := s.training.run(ctx, s.training.schedule, s.feed(batch, count), s.begin, s.config.Timeout, s.notes); err != nil {
		return state.Metrics{}, err
	}
	if err := s.update(ctx); err != nil {
		return state.Metrics{}, err
	}
	m, err := s.metrics(ctx, count)
	if err == nil {
		s.step++
	}
	s.use, s.ended = s.notes.recorder.End(), time.Now()
	return m, err
}

// feed writes the inputs of microbatch i to whatever program asks for them.
func (s *State) feed(batch data.Batch, count int64) feed {
	tokens := s.config.State.Batch * s.config.State.Sequence
	scale := []float32{float32(1 / float64(count))}
	return func(p *graph.Program, i int) error {
		for name := range p.Inputs() {
			var err error
			switch name {
			case model.InputTokens:
				err = p.WriteInts(name, batch.Tokens[i*tokens:(i+1)*tokens])
			case model.InputLabels:
				err = p.WriteInts(name, batch.Labels[i*tokens:(i+1)*tokens])
			case model.InputLossScale:
				err = p.WriteFloats(name, scale)
			case model.InputDropoutKey:
				key := s.config.State.DropoutKey(s.step, i)
				err = p.WriteUints(name, key[:])
			default:
				err = fmt.Errorf("input %q: nothing to write", name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// metrics reads what a step has left: the loss of each microbatch, and the optimizer's statistics.
func (s *State) metrics(ctx context.Context, tokens int64) (state.Metrics, error) {
	raw, err := s.results.Next(ctx)
	if err != nil {
		return state.Metrics{}, s.last.failed("results", err)
	}
	m := state.Metrics{Step: s.step + 1, Tokens: tokens, LearningRate: s.stages[0].opt.LearningRate()}
	if err := m.Parse(s.config.State, raw); err != nil {
		return state.Metrics{}, err
	}
	if !m.Finite {
		s.skipped++
	}
	m.Skipped = s.skipped
	return m, nil
}

// known refuses what the model has no embedding for before any stage has begun with it.
func (c Config) known(tokens []int32) error {
	vocab := c.State.Definition.Vocab()
	for i, token := range tokens {
		if token < 0 || int(token) >= vocab {
			return fmt.Errorf("token id at position %d: %d, want 0 to %d", i, token, vocab-1)
		}
	}
	return nil
}

// Drain is what loops call before they read a state; no step of a pipeline is ever in flight.
func (s *State) Drain(context.Context) ([]state.Metrics, error) {
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("pipeline: drain: %w", err)
	}
	return nil, nil
}

// pass runs a line without gradients. One that fails half way leaves messages on the links, and the state unusable.
func (s *State) pass(ctx context.Context, l *line, schedule *Schedule, write feed) error {
	if err := s.usable(); err != nil {
		return err
	}
	err := l.run(ctx, schedule, write, nil, s.config.Timeout, nil)
	if err != nil {
		s.broken = err
	}
	return err
}
