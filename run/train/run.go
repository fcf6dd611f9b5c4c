package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	"gputrain/gpu"
)

// Result is how a run ended.
type Result struct {
	Reason     Kind
	Step       int64   // of the state at the end
	Resumed    int64   // the step that this run went on from; 0: it began
	Loss       float64 // mean of the last steps' training loss, nats a token
	EvalLoss   float64 // of the last evaluation; NaN without one
	BestLoss   float64 // the lowest of all evaluations; NaN without one
	BestStep   int64
	Checkpoint string // the newest checkpoint; "" without one
	Elapsed    time.Duration
	Times      []Span // where the time went
}

// checkpointsDir is the directory of a run's checkpoints.
const checkpointsDir = "checkpoints"

// TensorBoardDir is the directory that package run/tensorboard makes in a run directory.
const TensorBoardDir = "tensorboard"

// Run trains on a device until all steps are made, Options.Patience is over, ctx ends (see Signals) or something stops it: Result.Reason says which, and the error,
// nil in the first two cases, more: it matches ErrStopped (and is a *TimeLimitError where that was it), ErrDiverged, gpu.ErrOutOfMemory or checkpoint.Err.
//
// The same call again goes on where the newest whole checkpoint of the run directory stands, to the same bits as if it had never
// stopped. A directory of a run with other settings is a *ChangedError.
func Run(ctx context.Context, dev *gpu.Device, c Config) (Result, error) {
	return RunOn(ctx, oneDevice{dev, c.taken()}, c)
}

// RunOn is Run on any target. The same run may go on on another one.
func RunOn(ctx context.Context, target Target, c Config) (Result, error) {
	started := time.Now()
	if limit := c.TimeLimit.Time(); limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, limit, &TimeLimitError{Limit: limit})
		defer cancel()
		ctx = limited
	}
	result, err := run(ctx, target, c)
	err = Stopping(ctx, err)
	if result.Elapsed = time.Since(started); err != nil {
		result.Reason = KindOf(err)
	}
	return result, err
}

func run(ctx context.Context, target Target, c Config) (_ Result, err error) {
	nothing := Result{Loss: math.NaN(), EvalLoss: math.NaN(), BestLoss: math.NaN()}
	together := &team{group: c.Ranks, target: target}
	if target == nil {
		return nothing, together.end(ctx, errors.New("train: target: found none, wanted one, such as Pipelined makes"))
	}
	if err := c.Validate(); err != nil {
		return nothing, together.end(ctx, err)
	}
	if c, err = c.withValue(); err != nil {
		return nothing, together.end(ctx, err)
	}
	c = c.withDefaults()
	if c.Ranks.Spread() {
		if err := c.checkSpread(); err != nil {
			return nothing, together.end(ctx, err)
		}
	}
	if !c.leads() {
		replica, _ := c.Ranks.Replica()
		c = c.follower(replica == 0)
	}
	progress, err := NewProgress(c.Progress, c.Output, c.Interval)
	if err != nil {
		return nothing, err
	}
	defer progress.Close()
	spent := newTimes(time.Now)
	spent.watch = func(name string) { progress.Busy(name, 0, 0) }
	for _, s := range c.Before {
		spent.spent[s.Name] += s.Spent
	}
	c.State.Progress = spent.phase(progress.Phase)
	t := newTrainer(c, together, progress, spent)
	defer t.release()
	defer func() {
		if left := t.leave(ctx); err == nil {
			err = left
		}
	}()
	if err := (&opening{trainer: t}).start(ctx); err != nil {
		_, err = together.agree(ctx, err, false)
		t.dir.undo()
		return nothing, together.end(ctx, err)
	}
	err = together.end(ctx, t.loop(ctx))
	defer together.waitForAll(ctx)
	if !c.leads() {
		return t.result(), err
	}
	kind, why := t.reason(err)
	if failed := t.tell(context.WithoutCancel(ctx), Event{Kind: Ended, Reason: kind, Err: err, BestStep: t.run.BestStep}); failed != nil {
		err = errors.Join(err, failed)
		kind, why = t.reason(err)
	}
	reportErr := t.dir.check()
	if reportErr == nil {
		end := t.times.span(spanReport)
		reportErr = errors.Join(t.noteEnded(kind, why), t.reporter.write(kind, why, t.state.Step()))
		end()
	}
	if t.checkpoint != "" && t.dir.check() == nil {
		if why != "" {
			t.tellEarly()
		}
		t.say("%s at step %s; model in %s, report in %s", kind, grouped(t.state.Step()), t.checkpoint, t.dir.join(reportFile))
	}
	progress.Times(t.times.list())
	progress.Close()
	if err == nil {
		err = reportErr
	}
	if profileErr := t.profile(); err == nil {
		err = profileErr
	}
	return t.result(), err
}

// profile writes ProfileFile.
func (t *trainer) profile() error {
	if t.config.Profile == nil {
		return nil
	}
	var trace bytes.Buffer
	if err := t.config.Profile(&trace); err != nil || trace.Len() == 0 {
		return err
	}
	return t.dir.replace(profileFile, trace.Bytes())
}
