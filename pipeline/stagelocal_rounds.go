package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
)

// InRounds is the stage-local path of a transformation of package optim: on each stage the pieces of its update, with the norms of the whole
// model put together between them.
func InRounds(tx optim.Transform) ApplyFunc {
	return func(ctx context.Context, _ Metadata, a Application) error {
		e := &ensemble{tx: tx}
		defer e.release()
		for i, r := range a.Stages {
			if err := e.add(ctx, r); err != nil {
				return fmt.Errorf("pipeline: stage local: %s: stage %d: %w", tx.Name(), i, err)
			}
		}
		if err := e.run(ctx, a.LearningRate); err != nil {
			return fmt.Errorf("pipeline: stage local: %s: %w", tx.Name(), err)
		}
		return nil
	}
}

// An ensemble is the stages of one call at work.
type ensemble struct {
	tx     optim.Transform
	stages []*member
	states []*optim.State
}

// A member is a stage with the gradients of all of its params, and the programs of its pieces.
type member struct {
	Residents
	grads    *buffers.Tree
	filled   *buffers.Tree // grads, where some of the stage's were absent
	phase    optim.Phase
	programs []*gpu.Program
}

// add takes a stage in, and finds what is wrong with it before anything has changed.
func (e *ensemble) add(ctx context.Context, r Residents) error {
	if r.Params == nil || r.State == nil {
		return fmt.Errorf("found no params or no state, wanted both")
	}
	m := &member{Residents: r, grads: r.Grads, phase: r.State.Phase()}
	e.stages, e.states = append(e.stages, m), append(e.states, r.State)
	if slices.Contains(e.states[:len(e.states)-1], r.State) {
		return fmt.Errorf("state: found one stage twice, wanted each once")
	}
	if first := e.states[0].Counts(); !maps.Equal(first, r.State.Counts()) {
		return fmt.Errorf("counts: found %v, wanted those of stage 0, %v", r.State.Counts(), first)
	}
	if r.Grads == nil || len(r.Grads.Layout().Leaves()) < len(r.Params.Layout().Leaves()) {
		var err error
		if m.filled, err = fill(ctx, r); err != nil {
			return err
		}
		m.grads = m.filled
	}
	return m.build(ctx, e.tx)
}

// build makes the programs of the stage's phase.
func (m *member) build(ctx context.Context, tx optim.Transform) error {
	m.discard()
	rounds := m.State.Rounds()
	if m.phase == optim.Collect {
		rounds = 1
	}
	for round := range rounds {
		rec := m.Params.Device().Record("gputrain.pipeline.stage_local")
		var err error
		if m.phase == optim.Collect {
			err = tx.Record(rec, m.phase, m.grads, m.State, m.Params)
		} else {
			err = tx.RecordRound(rec, m.phase, round, m.grads, m.State, m.Params)
		}
		if err != nil {
			return err
		}
		p, err := rec.Program(ctx)
		if err != nil {
			return err
		}
		m.programs = append(m.programs, p)
	}
	return nil
}

// run makes the call.
func (e *ensemble) run(ctx context.Context, lr optim.Schedule) error {
	if len(e.stages) == 0 {
		return fmt.Errorf("found no stages, wanted one or more")
	}
	rounds := len(e.stages[0].programs)
	var measured [][]byte
	var combined []byte
	if rounds > 1 {
		for _, s := range e.states {
			measured = append(measured, make([]byte, s.Measured(0).Bytes))
		}
		combined = make([]byte, e.states[0].Combined(0).Bytes)
		if err := optim.GatherNorms(combined, e.states, measured); err != nil {
			return err // stages that are not the whole model
		}
	}
	if err := e.prepare(ctx, lr); err != nil {
		return err
	}
	for round := range rounds {
		if round > 0 {
			if err := e.exchange(ctx, round-1, measured, combined); err != nil {
				return err
			}
		}
		for i, m := range e.stages {
			if err := m.programs[round].Submit(ctx); err != nil {
				return fmt.Errorf("stage %d: %w", i, err)
			}
		}
	}
	return nil
}

// prepare begins the call on all stages, or on none.
func (e *ensemble) prepare(ctx context.Context, lr optim.Schedule) error {
	before := e.states[0].Counts()
	for i, m := range e.stages {
		phase, err := m.State.PrepareAt(lr)
		if err == nil && phase != m.phase { // it reuses what the last update refreshed
			m.phase = phase
			err = m.build(ctx, e.tx)
		}
		if err != nil {
			for _, s := range e.states {
				_ = s.SetCounts(before) // those that it had
			}
			return fmt.Errorf("stage %d: %w", i, err)
		}
	}
	return nil
}

// exchange gives every stage what all of them measured.
func (e *ensemble) exchange(ctx context.Context, round int, measured [][]byte, combined []byte) error {
	for i, m := range e.stages {
		if err := m.Params.Device().Read(ctx, measured[i], m.State.Measured(round)); err != nil {
			return fmt.Errorf("stage %d: norm: %w", i, err)
		}
	}
	if err := optim.GatherNorms(combined, e.states, measured); err != nil {
		return err
	}
	for i, m := range e.stages {
		if err := m.Params.Device().Write(m.State.Combined(round), combined); err != nil {
			return fmt.Errorf("stage %d: norm: %w", i, err)
		}
	}
	return nil
}

func (m *member) discard() {
	for _, p := range m.programs {
		p.Release()
	}
	m.programs = nil
}

func (e *ensemble) release() {
	for _, m := range e.stages {
		m.discard()
		if m.filled != nil {
			m.filled.Release()
		}
	}
}

// fill makes a tree of gradients of all params of a stage: those that it has, and zeros.
func fill(ctx context.Context, r Residents) (*buffers.Tree, error) {
	dtype := buffers.F32
	if r.Grads != nil {
		dtype = r.Grads.DType()
	}
	all, err := buffers.NewTree(r.Params.Device(), "pipeline.grads", r.Params.Layout(), dtype)
	if err != nil || r.Grads == nil {
		return all, err
	}
	rec := r.Params.Device().Record("gputrain.pipeline.fill")
	for _, leaf := range r.Grads.Layout().Leaves() {
		to, found := all.Layout().Leaf(leaf.Path)
		if !found || !slices.Equal(to.Shape, leaf.Shape) {
			all.Release()
			return nil, fmt.Errorf("grads: leaf %q of shape %v: found no such param", leaf.Path, leaf.Shape)
		}
		if !slices.EqualFunc(to.Parts, leaf.Parts, func(a, b buffers.Part) bool { return a.Count == b.Count }) {
			all.Release()
			return nil, fmt.Errorf("grads: leaf %q: found it in %d parts, wanted those of the params, %d", leaf.Path, len(leaf.Parts), len(to.Parts))
		}
		for i, part := range leaf.Parts {
			rec.Copy(all.Part(to.Parts[i]), r.Grads.Part(part))
		}
	}
	if err := rec.Submit(ctx); err != nil {
		all.Release()
		return nil, fmt.Errorf("grads: %w", err)
	}
	return all, nil
}
