// Package eformer spells the stage-local updates of eformer over [state.NewUpdater], for programs that come from there. If you begin here, place a
// [state.Value] on your devices, or make an updater yourself.
package eformer

import (
	"context"
	"errors"
	"fmt"

	"gputrain/optim"
	"gputrain/state"
)

// StageLocal is a gradient transformation that stages can apply, each to its own leaves, wherever they live (eformer's
// StageLocalGradientTransformation). No graph is needed. Init, Update and the other methods still serve a whole tree.
//
//	tx, err := eformer.NewStageLocal(config, nil)
//	for i, s := range stages {
//		stages[i].State, err = tx.InitStage(s.Params, model) // model: the leaves of all stages
//	}
//	err = tx.ApplyGradientsStageLocal(ctx, eformer.Application{Stages: stages})
type StageLocal struct {
	optim.Transform
	metadata Metadata
	apply    ApplyFunc
}

// An Application is one call: the gradients of one or more stages. Where a norm of the whole model is measured, these are all its stages.
type Application struct {
	Stages           []state.Resident // with states of StageLocal.InitStage; a leaf that Grads lack, all where they are nil, has a gradient of zero
	LearningRate     optim.Schedule   // for this call instead of the optimizer's own; nil: its own
	ReleaseGradients bool             // give the memory of Grads back as soon as they are used
}

// An ApplyFunc is a stage-local path: it updates the params and states of all stages in place. Metadata is that of MakeStageLocal. The caller
// releases gradients.
type ApplyFunc func(ctx context.Context, m Metadata, a Application) error

// NewStageLocal builds an optimizer with its stage-local path: that of whole trees in rounds, so that stages come to the bits of the whole model.
// Clip, accumulation and masks are the optimizer's own; see InRounds for the clip in eformer numerics. Errors are those of NewMetadata.
func NewStageLocal(c optim.Config, extra map[string]any) (StageLocal, error) {
	m, err := NewMetadata(c, extra)
	if err != nil {
		return StageLocal{}, err
	}
	tx, err := c.Build()
	return StageLocal{Transform: tx, metadata: m, apply: InRounds(tx)}, err
}

// MakeStageLocal gives a transformation a stage-local path of your own. If the metadata has a clip, apply gets f32 gradients that are
// clipped already, by the norm of the whole model, and tx must not clip again. Errors: no function; metadata that accumulate, which is for
// apply to do.
func MakeStageLocal(tx optim.Transform, m Metadata, apply ApplyFunc) (StageLocal, error) {
	if apply == nil {
		return StageLocal{}, fmt.Errorf("eformer: make stage local: %s: apply: found none, wanted a function", tx.Name())
	}
	if n := m.AccumulationSteps(); n > 1 {
		return StageLocal{}, fmt.Errorf("eformer: make stage local: %s: accumulation_steps: found %d, wanted 1: apply is called with the gradients of each "+
			"call, collect them in it, or wrap tx in optim.Accumulate and use InRounds", tx.Name(), n)
	}
	if limit, clips := m.ClipGrad(); clips {
		apply = clipped(m.Optimizer().Options.StageLocalClip(limit), apply)
	}
	return StageLocal{tx, m, apply}, nil
}

// Unsupported gives a transformation a stage-local path that fails. The error names the optimizer, the reason if there is one, and what to
// do, and wraps errors.ErrUnsupported. All else works as before.
func Unsupported(tx optim.Transform, optimizer, reason string) StageLocal {
	if reason != "" {
		reason = " (" + reason + ")"
	}
	return StageLocal{Transform: tx, apply: func(context.Context, Metadata, Application) error {
		return fmt.Errorf("eformer: apply: optimizer %q: found no stage-local path%s, wanted one: make it with NewStageLocal of a registered optimizer, "+
			"or implement an ApplyFunc and attach it with MakeStageLocal: %w", optimizer, reason, errors.ErrUnsupported)
	}}
}

// InRounds is the stage-local path of a transformation of package optim: on each stage the pieces of its update, with the norms of the whole
// model put together between them. In eformer numerics its clip is that of optim.ClipStageLocal, and that of optim.ClipByGlobalNorm in Update.
func InRounds(tx optim.Transform) ApplyFunc {
	return func(ctx context.Context, _ Metadata, a Application) error {
		for _, r := range a.Stages {
			if r.State != nil {
				r.State.SetStageLocal(true)
				defer r.State.SetStageLocal(false)
			}
		}
		u, err := state.NewUpdater(tx, a.Stages, state.UpdaterConfig{Label: "eformer.apply", Absent: true})
		if err == nil {
			defer u.Release()
			err = u.Prepare(ctx, a.LearningRate)
		}
		if err == nil {
			err = u.Apply(ctx, u.Concurrently(ctx))
		}
		if err != nil {
			return fmt.Errorf("eformer: apply: %s: %w", tx.Name(), err)
		}
		return nil
	}
}

// Metadata tells what the optimizer was built of; it is the zero value where MakeStageLocal got none.
func (s StageLocal) Metadata() Metadata { return s.metadata }

// ApplyGradientsStageLocal makes one call on all stages of an application. It updates their params and states in place; the devices may
// still be at work when it returns. The stages run at the same time and meet only where a norm of the whole model is measured, with eight
// bytes a leaf.
//
// Errors: a stage that lacks a tree or whose trees do not match, states whose counts differ, stages that are not the whole model where its
// norm is measured, all found before anything has changed; and errors of the devices. The gradients are released only by a call that
// succeeds.
func (s StageLocal) ApplyGradientsStageLocal(ctx context.Context, a Application) error {
	if s.apply == nil {
		return fmt.Errorf("eformer: apply: found the zero value, wanted one of NewStageLocal, MakeStageLocal or Unsupported: %w", errors.ErrUnsupported)
	}
	if err := s.apply(ctx, s.metadata, a); err != nil {
		return err
	}
	for _, r := range a.Stages {
		if a.ReleaseGradients && r.Grads != nil {
			r.Grads.Release()
		}
	}
	return nil
}
