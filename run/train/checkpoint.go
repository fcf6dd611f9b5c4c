package train

import (
	"context"
	"errors"
	"time"

	"gputrain/state/checkpoint"
)

// saveDueAt tells whether intervals have step.
func saveDueAt(v intervals, step int64) bool {
	for _, i := range v {
		if i.Until == 0 || step <= i.Until {
			return step > 0 && step%i.Every == 0
		}
	}
	return false
}

// saves is what a run knows of its checkpoints.
type saves struct {
	saver     *checkpoint.Saver
	copies    bool      // training goes on while a checkpoint is written
	permanent int64     // the step of the newest permanent checkpoint, begun or found
	temporary int64     // and of the newest temporary one
	begun     time.Time // when the newest of both was begun, or the run
	late      bool      // SaveInterval has passed, as several ranks have agreed

	again       bool // the checkpoint that the run has gone on from is to be saved again
	temporarily bool // and it is a temporary one
}

// found takes note of the checkpoint that the run goes on from.
func (s *saves) found(r checkpoint.Record) {
	if r.Run.Temporary {
		s.temporary = r.Step
	} else {
		s.permanent = r.Step
	}
}

// unfinished are the steps of checkpoints that may not be there yet.
func (s *saves) unfinished() (steps []int64) {
	for _, step := range []int64{s.permanent, s.temporary} {
		if step > 0 {
			steps = append(steps, step)
		}
	}
	return steps
}

// forget makes step be saved again: what was saved of it is no longer all that is known.
func (s *saves) forget(step int64) {
	if s.permanent == step {
		s.permanent = 0
	}
	if s.temporary == step {
		s.temporary = 0
	}
}

// saveDue tells whether the present step is to be saved: for good, because the intervals have it or it is the last, or for the time being,
// because SaveInterval has passed.
func (t *trainer) saveDue() (due, temporary bool) {
	c, step := t.config, t.state.Step()
	switch {
	case t.saves.again:
		return true, t.saves.temporarily
	case step == 0 || step == t.saves.permanent:
		return false, false
	case t.ends() || saveDueAt(c.SaveEvery, step):
		return true, false
	}
	late := t.saves.late
	if c.Ranks == nil {
		late = t.overdue()
	}
	return late, late
}

// overdue tells whether SaveInterval has passed.
func (t *trainer) overdue() bool {
	interval := t.config.SaveInterval.Time()
	return interval > 0 && time.Since(t.saves.begun) >= interval
}

// save begins a checkpoint of this step, unless there is one, and nothing has to be learned: it takes a copy, which a goroutine writes, or where there is no room
// for one writes it from the devices. It waits for the save before, whose error it returns.
func (t *trainer) save(ctx context.Context, temporary bool) error {
	step := t.state.Step()
	if !t.saves.again && (step == 0 || step == t.saves.permanent || temporary && step == t.saves.temporary) {
		return nil
	}
	if err := t.finishSave(ctx, true); err != nil {
		return err
	}
	run := t.run
	run.Temporary = temporary
	if err := t.beginSave(ctx, run); err != nil {
		return err
	}
	t.saved(step, temporary)
	if t.saves.copies {
		return nil
	}
	return t.finishSave(ctx, true)
}

// beginSave copies the state and begins to write it, or writes it.
func (t *trainer) beginSave(ctx context.Context, run checkpoint.Run) (err error) {
	// A checkpoint never knows more than the logs.
	durable := func() error { return errors.Join(t.journal.sync(), t.syncHooks()) }
	// Other ranks than the first have nothing to write, but each may have its part of the optimizer's state, or stages of the first replica.
	replica, _ := t.team.replica()
	shared := t.config.Ranks != nil && t.config.State.ShardOptimizer || t.team.spread() && replica == 0
	switch {
	case !t.config.leads() && !shared:
		return nil
	case t.saves.copies && t.config.leads():
		var host checkpoint.HostCopy
		if host, err = t.copyToHost(ctx, run); err == nil {
			return t.saves.saver.Start(host, t.keep(), durable)
		}
	default: // as a rank that follows, whatever the first does
		var refused error
		stop := t.times.span(spanSaveWait)
		err = t.state.Stream(ctx, run, func(c checkpoint.HostCopy) { refused = t.saves.saver.Write(c, t.keep(), durable) })
		stop()
		if err == nil {
			return refused
		}
	}
	t.team.apart = t.team.apart || shared
	return err
}

// keep is what rotation leaves.
func (t *trainer) keep() checkpoint.Keep {
	return checkpoint.Keep{Last: t.config.Keep, Best: t.config.KeepBest, Protect: []int64{t.run.BestStep}}
}

func (t *trainer) copyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	defer t.times.span(spanCopy)()
	return t.state.CopyToHost(ctx, run)
}

// saved takes note of a checkpoint that is begun.
func (t *trainer) saved(step int64, temporary bool) {
	t.saves.begun, t.saves.late, t.saves.again = time.Now(), false, false
	if temporary {
		t.saves.temporary = step
	} else {
		t.saves.permanent = step
	}
}

// finishSave takes the outcome of the save under way, if it is done or wait is set.
func (t *trainer) finishSave(ctx context.Context, wait bool) error {
	take := t.saves.saver.Done
	if wait {
		defer t.times.span(spanSaveWait)()
		take = t.saves.saver.Wait
	}
	saving, ok := take()
	if !ok {
		return nil
	}
	if t.saves.copies {
		t.times.beside[spanSaveWrite] += saving.Took
	}
	if bad, ok := errors.AsType[*checkpoint.NonFiniteError](saving.Err); ok {
		return errors.Join(&DivergedError{
			Step: saving.Step, Skipped: t.run.InARow, Tensor: bad.Tensor, Loss: float64(t.last.Loss), GradNorm: float64(t.last.GradNorm),
		}, saving.Err)
	}
	if saving.Err != nil {
		return t.config.withSpaceKeys(saving.Err)
	}
	t.checkpoint = saving.Path
	return t.tell(ctx, Event{Kind: Saved, Step: saving.Step, Checkpoint: saving.Path})
}
